// What the texts of bundles for all targets have in common.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block/reference.h"
#include "export/bundle.h"
#include "export/template_text.h"

namespace fusetune::exporting {

/// A template under templates/ and where its text goes. @name@ in the place is the bundle's name.
struct TemplateFile {
  std::string_view source, place;
};

/// Fills all of them. Throws base::InternalError where none uses one of the values.
void add_templates(std::span<const TemplateFile> templates, const Values& values, Files& files);

/// A file that the program has in it. Throws base::InternalError.
std::string_view embedded(std::string_view path);

/// "ENC" of "enc".
std::string upper(std::string text);
/// `text` for a C comment or a line of a document: it neither ends the comment nor the line.
std::string one_line(std::string text);
/// `text` as a C string literal, in one line.
std::string c_string(const std::string& text);
/// Lines of a CMake list.
std::string cmake_lines(const std::vector<std::string>& words);

/// What bundles for every target fill in.
Values origin_values(const BundleOrigin& origin);

/// What the block gives for its generated data: float32, little endian as every machine that runs the kernels
/// is, row-major [tokens, hidden]. Takes a while for large problems.
std::string expected_output(const block::Problem& problem, block::ReferenceRounding rounding);

}  // namespace fusetune::exporting
