#include "tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "backend/cuda/cubin_compiler.h"
#include "backend/simt/emulator.h"
#include "backend/simt/library_compiler.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "cases.h"
#include "gpu.h"
#include "image.h"
#include "tuning.h"

namespace fusetune::device_check {
namespace {

namespace fs = std::filesystem;
namespace simt = backend::simt;
using Libraries = std::map<std::string, std::shared_ptr<const simt::KernelLibrary>>;  // by image id

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw base::EnvironmentError(fmt::format("cannot create {}: {}", folder.string(), error.message()));
}

/// Everything that the stages load on one architecture, once each.
std::map<std::string, Image> all_images(const Preparation& what,
                                        const backend::cuda::Architecture& architecture) {
  std::map<std::string, Image> images;
  for (Image& image : probe_images()) images.emplace(image.cubin_name(), std::move(image));
  for (const codegen::GpuKernel& kernel : all_kernels(target_of(architecture), what.quick, what.stages)) {
    Image image = segment_image(kernel);
    images.emplace(image.cubin_name(), std::move(image));
  }
  return images;
}

/// Returns how many did not compile; those that are there already are not compiled again.
int compile_cubins(const Preparation& what, const backend::cuda::Architecture& architecture) {
  const fs::path folder = what.tree / architecture.name();
  create_folder(folder);
  std::vector<backend::cuda::CubinSource> sources;
  std::vector<fs::path> files;
  const std::map<std::string, Image> images = all_images(what, architecture);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))  // of earlier sources
    if (!images.contains(entry.path().filename().string())) fs::remove(entry.path());
  for (const auto& [file, image] : images) {
    if (fs::exists(folder / file)) continue;
    sources.push_back({image.name, image.symbol, image.cuda_text, architecture});
    files.push_back(folder / file);
  }
  backend::cuda::CubinOptions options;
  options.jobs = what.jobs;
  options.cache_directory = base::cache_directory();  // stopped, it goes on where it was
  backend::cuda::CubinCompiler compiler(backend::cuda::Nvrtc(), options);
  const auto results = compiler.compile(sources, [&](int done, int total) {
    constexpr int kStep = 50;
    if (done % kStep == 0) base::note(fmt::format("{}: {} of {} kernels", architecture.name(), done, total));
  });
  int failed = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].status == backend::cuda::CubinResult::Status::ok) {
      base::write_file_atomic(files[i], results[i].cubin);
    } else {
      ++failed;
      base::note(fmt::format("{} does not compile for {}:\n{}", sources[i].name, architecture.name(),
                             results[i].log));
    }
  }
  base::note(fmt::format("{}: {} kernels, {} compiled now, {} failed", architecture.name(), images.size(),
                         results.size(), failed));
  return failed;
}

std::vector<backend::cuda::CubinSource> first_sources(const Preparation& what) {
  std::vector<backend::cuda::CubinSource> sources;
  for (const backend::cuda::Architecture& architecture : what.architectures)
    for (const TunedProblem& tuned : tuned_problems(what.quick)) {
      const bool is_wanted = what.stages.empty() || std::find(what.stages.begin(), what.stages.end(),
                                                              tuned.stage) != what.stages.end();
      if (!is_wanted) continue;
      for (const codegen::GpuKernel& kernel :
           first_candidates(tuned.problem, target_of(architecture), what.quick))
        sources.push_back({kernel.variant.to_string(), kernel.symbol,
                           codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::cuda), architecture});
    }
  return sources;
}

/// Compiles what the searches begin with into cache/, where fusetune's own compiler looks it up. A kernel
/// that does not compile is for the search to find.
void fill_cache(const Preparation& what) {
  const std::vector<backend::cuda::CubinSource> sources = first_sources(what);
  const backend::cuda::Nvrtc nvrtc;
  base::Hasher hasher;
  hasher.add(nvrtc.identity());
  for (const backend::cuda::CubinSource& source : sources)
    hasher.add(source.architecture.name()).add(source.text);
  backend::cuda::CubinOptions options;
  options.jobs = what.jobs;
  options.cache_directory = what.tree / "cache";
  const fs::path stamp = options.cache_directory / "of";  // entries of other sources would travel for nothing
  if (!fs::exists(stamp) || base::read_file(stamp) != hasher.hex()) fs::remove_all(options.cache_directory);
  create_folder(options.cache_directory);
  base::write_file_atomic(stamp, hasher.hex());
  backend::cuda::CubinCompiler compiler(nvrtc, options);
  const std::size_t missing = compiler.count_missing(sources);
  compiler.compile(sources, [&](int done, int total) {
    constexpr int kStep = 50;
    if (done % kStep == 0) base::note(fmt::format("searches: {} of {} kernels", done, total));
  });
  base::note(fmt::format("searches: {} kernels, {} compiled now", sources.size(), missing));
}

Libraries compile_for_emulator(const std::map<std::string, Image>& images, int jobs) {
  simt::LibraryOptions options;
  options.jobs = jobs;
  options.cache_directory = base::cache_directory();
  simt::LibraryCompiler compiler(backend::cpu::find_compiler(""), simt::Mode::fast, options);
  std::vector<std::string> units;
  for (const auto& [file, image] : images) units.push_back(image.simt_text);
  const auto results = compiler.compile(units);
  Libraries libraries;
  std::size_t i = 0;
  for (const auto& [file, image] : images) {
    if (results[i].library == nullptr) throw base::EnvironmentError(results[i].log);
    libraries[image.id] = results[i++].library;
  }
  return libraries;
}

std::vector<std::uint32_t> emulate(const Probe& probe, const simt::KernelLibrary& library) {
  simt::DeviceMemory memory;
  const auto copy = [&](const std::vector<std::uint32_t>& words, const char* name) -> void* {
    if (words.empty()) return nullptr;
    auto* const buffer = memory.allocate_array<std::uint32_t>(std::ssize(words), name);
    std::copy(words.begin(), words.end(), buffer);
    return buffer;
  };
  ft_gpu_args args = {};
  auto* const out = memory.allocate_array<std::uint32_t>(probe.out_words, "out");
  args.tensor[0] = copy(probe.in, "in");
  args.tensor[1] = out;
  args.tensor[2] = copy(probe.more, "more");
  args.batch = probe.count;
  simt::LaunchOptions options;
  options.shared_bytes = probe.shared_bytes;
  if (const auto finding = simt::launch(library.kernel(probe.symbol), args, memory, options))
    throw base::InternalError(fmt::format("probe {}: {}", probe.name, finding->message));
  return {out, out + probe.out_words};
}

void write_answers(const fs::path& tree, int jobs) {
  create_folder(tree / "answers");
  std::map<std::string, Image> images;
  std::map<std::string, std::string> ids;  // by file
  for (Image& image : probe_images()) images.emplace(image.cubin_name(), image);
  const Libraries libraries = compile_for_emulator(images, jobs);
  for (const Probe& probe : all_probes()) {
    const auto answer = emulate(probe, *libraries.at(probe_image(probe.file).id));
    std::string bytes(answer.size() * sizeof answer[0], '\0');
    std::memcpy(bytes.data(), answer.data(), bytes.size());
    base::write_file_atomic(answer_file(tree, probe), bytes);
  }
}

void write_emulation(const Preparation& what) {
  create_folder(what.tree / "simt");
  for (const backend::cuda::Architecture& architecture : what.architectures)
    for (const auto& [id, library] : compile_for_emulator(all_images(what, architecture), what.jobs))
      base::write_file_atomic(what.tree / "simt" / (id + ".so"), base::read_file(library->path()));
}

}  // namespace

fs::path answer_file(const fs::path& tree, const Probe& probe) {
  base::Hasher hasher;
  hasher.add(probe_image(probe.file).simt_text).add(probe.symbol);
  for (const auto* words : {&probe.in, &probe.more})
    for (const std::uint32_t word : *words) hasher.add(std::uint64_t{word});
  return tree / "answers" / (probe.symbol + "-" + hasher.hex().substr(0, 12) + ".bin");
}

std::vector<std::uint32_t> read_answer(const fs::path& tree, const Probe& probe) {
  const fs::path file = answer_file(tree, probe);
  if (!fs::exists(file))
    throw base::EnvironmentError("the prepared tree has no answer for " + probe.name +
                                 ": repeat tools/device_check --prepare");
  const std::string bytes = base::read_file(file);
  std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof words[0]);
  return words;
}

int prepare(const Preparation& what) {
  int failed = 0;
  for (const backend::cuda::Architecture& architecture : what.architectures)
    failed += compile_cubins(what, architecture);
  fill_cache(what);
  write_answers(what.tree, what.jobs);
  if (what.emulation) write_emulation(what);
  return failed;
}

}  // namespace fusetune::device_check
