#include "image.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/kernel_source.h"
#include "embedded_probes.h"

namespace fusetune::device_check {
namespace {

std::string probe_unit(const ProbeFile& file, const std::string& id, std::string_view platform) {
  std::string text;
  for (const std::string_view path : {std::string_view("cuda/abi.h"), platform})
    text += fmt::format("#line 1 \"{}\"\n{}", path, codegen::building_block(path));
  text += fmt::format("FT_KERNEL_ID(0x{}ull);\nusing namespace ft;\n", id);
  return text + fmt::format("#line 1 \"probes/{}\"\n{}", file.name, file.text);
}

/// The name in the first FT_KERNEL(name, ...).
std::string first_symbol(std::string_view text) {
  constexpr std::string_view head = "\nFT_KERNEL(";
  const std::size_t at = text.find(head);
  if (at == std::string_view::npos) throw base::InternalError("a probe file without a kernel");
  const std::string_view rest = text.substr(at + head.size());
  return std::string(rest.substr(0, rest.find(',')));
}

Image image_of(const ProbeFile& file) {
  Image image;
  image.name = fmt::format("probes/{}", file.name);
  image.symbol = first_symbol(file.text);
  image.id = base::hash_hex(file.text).substr(0, 16);
  image.cuda_text = probe_unit(file, image.id, "cuda/platform_nvidia.h");
  image.simt_text = probe_unit(file, image.id, "cuda/platform_simt.h");
  return image;
}

}  // namespace

std::string Image::cubin_name() const {
  return fmt::format("{}-{}.cubin", id, base::hash_hex(cuda_text).substr(0, 8));
}

Image probe_image(std::string_view file) {
  for (const ProbeFile& candidate : probe_files())
    if (candidate.name == file) return image_of(candidate);
  throw base::InternalError(fmt::format("there is no probe file {}", file));
}

std::vector<Image> probe_images() {
  std::vector<Image> images;
  for (const ProbeFile& file : probe_files()) images.push_back(image_of(file));
  return images;
}

Image segment_image(const codegen::GpuKernel& kernel) {
  return {.name = fmt::format("{} {} {}", kernel.variant.to_string(), name(kernel.dtype),
                              kernel.schedule.to_string()),
          .symbol = kernel.symbol,
          .id = kernel.hash,
          .cuda_text = codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::cuda),
          .simt_text = codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::simt)};
}

}  // namespace fusetune::device_check
