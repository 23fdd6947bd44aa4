#include "block/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace fusetune::block {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file with a hand-made header: nothing here comes from the writer under test.
std::string npy_bytes(int major, std::string header, std::string_view payload) {
  header += '\n';
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(major);
  bytes += '\0';
  const std::uint32_t length = static_cast<std::uint32_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&length), major == 1 ? 2 : 4);
  return bytes + header + std::string(payload);
}

template <typename Value>
std::string raw(std::initializer_list<Value> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(Value));
}

class Npy : public testing::Test {
 protected:
  std::filesystem::path file(std::string_view bytes) {
    std::filesystem::path path = directory_.path() / "array.npy";
    base::write_file_atomic(path, bytes);
    return path;
  }
  std::string floats_error(std::string_view bytes) {
    std::filesystem::path path = file(bytes);
    try {
      read_npy_floats(path);
    } catch (const base::UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.what();
    }
    return "no error";
  }
  base::TemporaryDirectory directory_;
};

TEST_F(Npy, ReadsEveryHeaderVersion) {
  for (const int major : {1, 2, 3}) {
    const auto array =
        read_npy_floats(file(npy_bytes(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                                       raw({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}))));
    EXPECT_THAT(array.shape, ElementsAre(2, 3));
    EXPECT_THAT(array.values, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(Npy, ReadsDoublesScalarsVectorsAndEmptyArrays) {
  const auto doubles = read_npy_floats(
      file(npy_bytes(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", raw({0.1, -2.0}))));
  EXPECT_THAT(doubles.values, ElementsAre(0.1f, -2.0f));
  EXPECT_THAT(doubles.shape, ElementsAre(2));
  const auto scalar = read_npy_floats(
      file(npy_bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", raw({7.f}))));
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_THAT(scalar.values, ElementsAre(7));
  EXPECT_TRUE(
      read_npy_floats(file(npy_bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5)}", "")))
          .values.empty());
  // A vector that NumPy marks as Fortran-ordered is the same bytes.
  EXPECT_THAT(read_npy_floats(file(npy_bytes(1, "{\"descr\": \"<f4\", 'fortran_order': True, 'shape': (1,)}",
                                             raw({3.f}))))
                  .values,
              ElementsAre(3));
}

TEST_F(Npy, NamesWhatIsWrong) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_THAT(floats_error(""), HasSubstr("signature"));
  EXPECT_THAT(floats_error("PK\x03\x04 an .npz archive"), HasSubstr("signature"));
  EXPECT_THAT(floats_error(npy_bytes(4, good, raw({1.f, 2.f}))), HasSubstr("version 4"));
  EXPECT_THAT(floats_error(npy_bytes(1, good, "").substr(0, 30)), HasSubstr("truncated"));
  EXPECT_THAT(floats_error(npy_bytes(1, good, raw({1.f}))), HasSubstr("needs 8 bytes"));
  EXPECT_THAT(floats_error(npy_bytes(1, good, raw({1.f, 2.f, 3.f}))), HasSubstr("4 bytes follow"));
  EXPECT_THAT(
      floats_error(npy_bytes(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", raw({1.f, 2.f}))),
      HasSubstr("Fortran"));
  EXPECT_THAT(
      floats_error(npy_bytes(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", raw({1.0}))),
      HasSubstr("'<i8'"));
  EXPECT_THAT(
      floats_error(npy_bytes(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", raw({1.f}))),
      HasSubstr("'>f4'"));
  EXPECT_THAT(floats_error(npy_bytes(
                  1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "")),
              HasSubstr("overflows"));
  EXPECT_THAT(floats_error(npy_bytes(
                  1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693952, 2)}", "")),
              HasSubstr("overflows"));
  EXPECT_THAT(floats_error(npy_bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "")),
              HasSubstr("shape"));
  EXPECT_THAT(floats_error(npy_bytes(1, "{'descr': '<f4', 'shape': (1,)}", raw({1.f}))), HasSubstr("lacks"));
  EXPECT_THAT(
      floats_error(npy_bytes(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "")),
      HasSubstr("malformed"));
}

TEST_F(Npy, EveryTruncationOfAGoodFileIsRefused) {
  const std::string good =
      npy_bytes(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", raw({1.f, 2.f}));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(floats_error(good.substr(0, size)), "no error") << size;
}

TEST_F(Npy, BooleansAreZeroOrOne) {
  const auto array = read_npy_booleans(file(
      npy_bytes(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", std::string("\1\0\1", 3))));
  EXPECT_THAT(array.values, ElementsAre(1, 0, 1));
  EXPECT_THROW(
      read_npy_booleans(file(npy_bytes(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", "\2"))),
      base::UsageError);
  EXPECT_THROW(read_npy_booleans(
                   file(npy_bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", raw({1.f})))),
               base::UsageError);
}

TEST_F(Npy, WritesWhatItReads) {
  std::filesystem::path path = directory_.path() / "written.npy";
  const std::vector<float> values{1.5f, -0.0f, INFINITY, 1e-40f, 5, 6};
  const std::vector<std::int64_t> shape{1, 2, 3};
  write_npy(path, shape, std::span<const float>(values));
  const auto back = read_npy_floats(path);
  EXPECT_EQ(back.shape, shape);
  EXPECT_EQ(std::memcmp(back.values.data(), values.data(), values.size() * sizeof(float)), 0);
  EXPECT_EQ(std::filesystem::file_size(path) % 64, 24u);  // the data starts at a multiple of 64

  const std::vector<std::uint8_t> flags{1, 0};
  const std::vector<std::int64_t> vector_shape{2};
  write_npy(path, vector_shape, std::span<const std::uint8_t>(flags));
  EXPECT_EQ(read_npy_booleans(path).values, flags);
  EXPECT_THROW(write_npy(path, shape, std::span<const std::uint8_t>(flags)), base::InternalError);
}

}  // namespace
}  // namespace fusetune::block
