// What the C++ peers share: the question-and-answer protocol of protocol.py, and reading their data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace peers {

/// One thing that can be timed.
struct Row {
  std::string settings;                        // for the report
  std::function<double()> run;                 // runs all copies of the block once; seconds per block
  std::function<std::vector<float>()> output;  // [B,S,D] at the end of the chain; empty: see self_checked
  std::string self_checked;                    // how a row without block output was checked
};

/// Answers questions from standard input until `quit` or end of input; see protocol.py for the questions.
void serve(const std::map<std::string, Row>& rows, const std::map<std::string, std::string>& versions);

/// A raw little-endian float32 file of exactly `count` values. Throws std::runtime_error naming the file.
std::vector<float> read_floats(const std::filesystem::path& file, std::int64_t count);

/// Lines of a word and the rest of the line, as `fusetune --schedule FILE` reads: word -> rest. '#' starts a
/// comment. Throws std::runtime_error naming the file.
std::map<std::string, std::string> read_table(const std::filesystem::path& file);

/// "--name value ..." pairs; an option given twice keeps all its values. Throws std::runtime_error.
class Arguments {
 public:
  Arguments(int argc, char** argv, const std::vector<std::string>& known);
  /// The only value. Throws when it was not given.
  std::string one(const std::string& name) const;
  std::string one_or(const std::string& name, const std::string& otherwise) const;
  std::vector<std::string> all(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

std::vector<std::string> split(const std::string& text, char separator);

}  // namespace peers
