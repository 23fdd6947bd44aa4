#include "block/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "base/file.h"

namespace fusetune::block {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file with a hand-made header.
std::string bytes_of(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8).append(header).append(data);
}

class Safetensors : public testing::Test {
 protected:
  std::filesystem::path file(std::string_view bytes) {
    std::filesystem::path path = directory_.path() / "model.safetensors";
    base::write_file_atomic(path, bytes);
    return path;
  }
  std::string open_error(std::string_view bytes) {
    try {
      SafetensorsFile opened(file(bytes));
    } catch (const base::UsageError& error) {
      return error.what();
    }
    return "no error";
  }
  base::TemporaryDirectory directory_;
};

TEST_F(Safetensors, ReadsTheThreeDtypes) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("h":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]},)"
      R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]},)"
      R"("ids":{"dtype":"I64","shape":[1],"data_offsets":[14,22]}}  )";
  const std::string data(
      "\0\0\x80\x3f\0\0\0\xc0"
      "\0\x3c\0\xc0"
      "\x80\x3f"
      "\0\0\0\0\0\0\0\0",
      22);
  const SafetensorsFile opened(file(bytes_of(header, data)));
  EXPECT_EQ(opened.entries().size(), 4u);
  EXPECT_THAT(opened.read("a", std::array<std::int64_t, 1>{2}), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(opened.read("h", std::array<std::int64_t, 2>{1, 2}), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(opened.read("b", std::array<std::int64_t, 1>{1}), ElementsAre(1.0f));
  EXPECT_THROW(opened.read("ids", std::array<std::int64_t, 1>{1}), base::UsageError);
  EXPECT_THROW(opened.read("c", std::array<std::int64_t, 1>{1}), base::UsageError);
  EXPECT_THROW(opened.read("a", std::array<std::int64_t, 2>{2, 1}), base::UsageError);
}

TEST_F(Safetensors, NamesWhatIsWrong) {
  const std::string eight(8, '\0');
  EXPECT_THAT(open_error("abc"), HasSubstr("shorter"));
  EXPECT_THAT(open_error(std::string(8, '\xff') + "{}"), HasSubstr("does not fit"));
  EXPECT_THAT(open_error(bytes_of("{\"a\":", "")), HasSubstr("JSON"));
  EXPECT_THAT(open_error(bytes_of("[]", "")), HasSubstr("JSON object"));
  EXPECT_THAT(open_error(bytes_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", eight)),
              HasSubstr("truncated"));
  EXPECT_THAT(open_error(bytes_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight)),
              HasSubstr("'a'"));
  EXPECT_THAT(open_error(bytes_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", eight)),
              HasSubstr("does not fill"));
  EXPECT_THAT(open_error(bytes_of(
                  R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", eight)),
              HasSubstr("does not fill"));
  EXPECT_THAT(open_error(bytes_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight)),
              HasSubstr("well-formed"));
  EXPECT_THAT(open_error(bytes_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", eight)),
              HasSubstr("well-formed"));
  EXPECT_THAT(open_error(bytes_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                  R"("b":{"dtype":"F16","shape":[2],"data_offsets":[2,6]}})",
                                  eight)),
              HasSubstr("overlap"));
}

TEST_F(Safetensors, WritesWhatItReads) {
  std::filesystem::path path = directory_.path() / "written.safetensors";
  const std::vector<SafetensorsTensor> tensors{
      {"x.weight", {2, 2}, {1, 2, 3, 4}}, {"a", {1}, {-5}}, {"empty", {0}, {}}};
  write_safetensors(path, tensors);
  const SafetensorsFile opened(path);
  EXPECT_EQ(opened.entries().size(), 3u);
  for (const SafetensorsTensor& tensor : tensors)
    EXPECT_EQ(opened.read(tensor.name, tensor.shape), tensor.values);
  for (const auto& [name, entry] : opened.entries()) EXPECT_EQ(entry.begin % 4, 0u) << name;
}

}  // namespace
}  // namespace fusetune::block
