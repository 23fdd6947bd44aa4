// fake_kernels FOLDER: writes FOLDER/index, one line for each kernel that a search of FOLDER/problem on the
// fake driver's small device can ask for: its ft_kernel_id, variant and schedule. fake_kernels FOLDER ID:
// compiles that kernel for the emulator, as FOLDER/ID.so.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/kernel_compiler.h"
#include "backend/simt/library_compiler.h"
#include "base/file.h"
#include "base/text.h"
#include "codegen/gpu_kernel.h"
#include "search/space.h"
#include "search/tile_tuning.h"

namespace fusetune::testing {
namespace {

namespace fs = std::filesystem;

/// fake_driver.cpp's.
lower::GpuTarget small_device() { return {.shared_bytes = 227 << 10, .multiprocessors = 4}; }

block::Problem problem_of(const fs::path& folder) {
  return block::Problem::parse(base::trim(base::read_file(folder / "problem")));
}

/// Schedules of a variant for every tile that a lone GEMM may be found best with.
std::set<lower::AnySchedule> schedules_of(int variant, const search::Space& space,
                                          const std::vector<search::GemmTile>& tiles) {
  std::set<lower::AnySchedule> schedules;
  for (const search::GemmTile& tile : tiles)
    for (const lower::AnySchedule& schedule : space.schedules(variant, tile)) schedules.insert(schedule);
  return schedules;
}

int write_index(const fs::path& folder) {
  const block::Problem problem = problem_of(folder);
  const search::Space space = search::segment_space(problem, small_device());
  std::vector<search::GemmTile> tiles = {{}};
  for (const int op : search::gemm_operators())
    for (const lower::AnySchedule& schedule : space.schedules(search::lone_variant(op), {}))
      tiles.push_back(search::gemm_tile(schedule));
  std::string text;
  for (int variant = 0; variant < plan::kVariantCount; ++variant)
    for (const lower::AnySchedule& schedule : schedules_of(variant, space, tiles)) {
      const auto kernel = codegen::generate_gpu(plan::all_variants()[static_cast<std::size_t>(variant)],
                                                *schedule.gpu(), problem, small_device());
      text += fmt::format("{} {} {}\n", kernel.hash, variant, schedule.to_string());
    }
  base::write_file_atomic(folder / "index", text);
  return 0;
}

int compile(const fs::path& folder, const std::string& id) {
  std::ifstream index(folder / "index");
  for (std::string found, schedule; index >> found;) {
    std::size_t variant = 0;
    index >> variant;
    std::getline(index, schedule);
    if (found != id) continue;
    const auto kernel =
        codegen::generate_gpu(plan::all_variants()[variant], lower::GpuSchedule::parse(base::trim(schedule)),
                              problem_of(folder), small_device());
    backend::simt::LibraryOptions options;
    options.jobs = 1;
    options.cache_directory = base::cache_directory();
    backend::simt::LibraryCompiler compiler(backend::cpu::find_compiler(""), backend::simt::Mode::fast,
                                            options);
    const std::vector<std::string> units = {
        codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::simt)};
    const backend::simt::LibraryResult result = compiler.compile(units).front();
    if (result.library == nullptr) {
      fmt::print(stderr, "{}\n", result.log);
      return 1;
    }
    fs::copy_file(result.library->path(), folder / (id + ".tmp"), fs::copy_options::overwrite_existing);
    fs::rename(folder / (id + ".tmp"), folder / (id + ".so"));
    return 0;
  }
  fmt::print(stderr, "{} has no kernel {}\n", (folder / "index").string(), id);
  return 1;
}

}  // namespace
}  // namespace fusetune::testing

int main(int count, char** words) {
  if (count == 2) return fusetune::testing::write_index(words[1]);
  if (count == 3) return fusetune::testing::compile(words[1], words[2]);
  fmt::print(stderr, "usage: {} FOLDER [ID]\n", words[0]);
  return 2;
}
