// Schema versions: each migration takes a file from the version before it to its own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fusetune::store {

struct Migration {
  int version;           // 1, 2, ...: `user_version` after it
  std::string_view sql;  // any number of statements, run in the transaction that raises the version
};

/// All migrations in ascending order, from an empty file to the newest schema (data/schema/*.sql).
std::span<const Migration> migrations();

/// SQLite's application_id of our files: "FuTu" in ASCII. Any other file is foreign and refused.
inline constexpr std::int64_t kApplicationId = 0x46755475;

}  // namespace fusetune::store
