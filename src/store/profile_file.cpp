#include "store/profile_file.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "store/json_text.h"

namespace fusetune::store {
namespace {

constexpr const char* kTables = R"sql(
CREATE TABLE profile (
  problem TEXT NOT NULL, mask INTEGER NOT NULL, plan TEXT NOT NULL, environment TEXT NOT NULL,
  fingerprint TEXT NOT NULL, program TEXT NOT NULL, cache_mode TEXT NOT NULL, passes INTEGER NOT NULL,
  dropped INTEGER NOT NULL);
CREATE TABLE kernel (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, symbol TEXT NOT NULL, schedule TEXT NOT NULL,
  source_hash TEXT NOT NULL, flops REAL NOT NULL, bytes_read REAL NOT NULL, bytes_written REAL NOT NULL);
CREATE TABLE launch (
  kernel INTEGER NOT NULL REFERENCES kernel(id), pass INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL);
CREATE TABLE host_call (name TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL);
CREATE VIEW kernel_summary AS
  SELECT kernel.id AS kernel, name, count(*) AS calls,
    sum(end_ns - start_ns) / 1e3 AS total_us, avg(end_ns - start_ns) / 1e3 AS mean_us,
    min(end_ns - start_ns) / 1e3 AS min_us, max(end_ns - start_ns) / 1e3 AS max_us,
    100.0 * sum(end_ns - start_ns) / (SELECT sum(end_ns - start_ns) FROM launch) AS share_percent
  FROM launch JOIN kernel ON launch.kernel = kernel.id GROUP BY kernel.id ORDER BY kernel.id;
CREATE VIEW host_call_summary AS
  SELECT name, count(*) AS calls,
    sum(end_ns - start_ns) / 1e3 AS total_us, avg(end_ns - start_ns) / 1e3 AS mean_us,
    min(end_ns - start_ns) / 1e3 AS min_us, max(end_ns - start_ns) / 1e3 AS max_us
  FROM host_call GROUP BY name ORDER BY min(start_ns);
)sql";

void write_head(SQLite::Database& database, const ProfileRecord& profile) {
  SQLite::Statement row(database, "INSERT INTO profile VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.bind(1, profile.problem);
  row.bind(2, profile.mask);
  row.bind(3, profile.plan);
  row.bind(4, to_json(profile.environment.fields));
  row.bind(5, profile.environment.fingerprint);
  row.bind(6, profile.program);
  row.bind(7, profile.cache_mode);
  row.bind(8, static_cast<std::int64_t>(profile.passes_us.size()));
  row.bind(9, profile.dropped);
  row.exec();
}

void write_kernels(SQLite::Database& database, const std::vector<ProfiledKernel>& kernels) {
  SQLite::Statement row(database, "INSERT INTO kernel VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  std::int64_t id = 0;
  for (const ProfiledKernel& kernel : kernels) {
    row.reset();
    row.bind(1, ++id);
    row.bind(2, kernel.name);
    row.bind(3, kernel.symbol);
    row.bind(4, kernel.schedule);
    row.bind(5, kernel.source_hash);
    row.bind(6, kernel.flops);
    row.bind(7, kernel.bytes_read);
    row.bind(8, kernel.bytes_written);
    row.exec();
  }
}

std::int64_t nanoseconds(double us) { return static_cast<std::int64_t>(std::llround(us * 1000)); }

void write_launches(SQLite::Database& database, const std::vector<std::vector<double>>& passes_us) {
  SQLite::Statement row(database, "INSERT INTO launch VALUES (?, ?, ?, ?)");
  for (std::size_t pass = 0; pass < passes_us.size(); ++pass) {
    for (std::size_t kernel = 0; kernel + 1 < passes_us[pass].size(); ++kernel) {
      row.reset();
      row.bind(1, static_cast<std::int64_t>(kernel + 1));
      row.bind(2, static_cast<std::int64_t>(pass + 1));
      row.bind(3, nanoseconds(passes_us[pass][kernel]));
      row.bind(4, nanoseconds(passes_us[pass][kernel + 1]));
      row.exec();
    }
  }
}

void write_host_calls(SQLite::Database& database, const std::vector<ProfiledHostCall>& calls) {
  SQLite::Statement row(database, "INSERT INTO host_call VALUES (?, ?, ?)");
  for (const ProfiledHostCall& call : calls) {
    row.reset();
    row.bind(1, call.name);
    row.bind(2, nanoseconds(call.begin_us));
    row.bind(3, nanoseconds(call.begin_us + call.duration_us));
    row.exec();
  }
}

std::string bytes_of(SQLite::Database& database) {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
      sqlite3_serialize(database.getHandle(), "main", &size, 0), &sqlite3_free);
  if (!bytes) throw base::EnvironmentError("cannot make an SQLite file of a profile: not enough memory");
  return {reinterpret_cast<const char*>(bytes.get()), static_cast<std::size_t>(size)};
}

}  // namespace

void require_new_profile_file(const std::filesystem::path& path) {
  if (std::filesystem::exists(path))
    throw base::UsageError("'" + path.string() +
                           "' exists, and a profile replaces no database: remove it, or choose another name");
}

void write_profile_file(const std::filesystem::path& path, const ProfileRecord& profile) {
  require_new_profile_file(path);
  // In memory first, so that the file appears whole.
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec(kTables);
  SQLite::Transaction transaction(database);
  write_head(database, profile);
  write_kernels(database, profile.kernels);
  write_launches(database, profile.passes_us);
  write_host_calls(database, profile.host_calls);
  transaction.commit();
  base::write_file_atomic(path, bytes_of(database));
}

}  // namespace fusetune::store
