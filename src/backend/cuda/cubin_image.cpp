#include "backend/cuda/cubin_image.h"

#include <elf.h>

#include <cstring>

namespace fusetune::backend::cuda {
namespace {

/// The bytes [offset, offset + size) of the image; nothing where it ends before.
std::optional<std::string_view> part(std::string_view image, std::uint64_t offset, std::uint64_t size) {
  if (offset > image.size() || size > image.size() - offset) return std::nullopt;
  return image.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

/// Copies: nothing in an image need be aligned.
template <class T>
std::optional<T> read(std::string_view image, std::uint64_t offset) {
  const auto bytes = part(image, offset, sizeof(T));
  if (!bytes) return std::nullopt;
  T value;
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

std::optional<Elf64_Ehdr> header(std::string_view image) {
  const auto elf = read<Elf64_Ehdr>(image, 0);
  if (!elf || std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_ident[EI_CLASS] != ELFCLASS64 ||
      elf->e_ident[EI_DATA] != ELFDATA2LSB || elf->e_shentsize != sizeof(Elf64_Shdr))
    return std::nullopt;
  return elf;
}

std::optional<Elf64_Shdr> section(std::string_view image, const Elf64_Ehdr& elf, std::uint64_t index) {
  if (index >= elf.e_shnum) return std::nullopt;
  if (elf.e_shoff > image.size()) return std::nullopt;
  return read<Elf64_Shdr>(image, elf.e_shoff + index * sizeof(Elf64_Shdr));
}

std::string_view name_at(std::string_view strings, std::uint64_t offset) {
  if (offset >= strings.size()) return {};
  const std::string_view rest = strings.substr(static_cast<std::size_t>(offset));
  return rest.substr(0, rest.find('\0'));
}

/// The symbol's section and its place in it.
std::optional<Elf64_Sym> find_symbol(std::string_view image, const Elf64_Ehdr& elf, std::string_view name) {
  for (std::uint64_t i = 0; i < elf.e_shnum; ++i) {
    const auto table = section(image, elf, i);
    if (!table || table->sh_type != SHT_SYMTAB) continue;
    const auto names = section(image, elf, table->sh_link);
    if (!names) continue;
    const auto strings = part(image, names->sh_offset, names->sh_size);
    const auto symbols = part(image, table->sh_offset, table->sh_size);
    if (!strings || !symbols) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(*symbols, at);
      if (symbol && name_at(*strings, symbol->st_name) == name) return symbol;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> kernel_id(std::string_view image) {
  const auto elf = header(image);
  if (!elf) return std::nullopt;
  const auto symbol = find_symbol(image, *elf, "ft_kernel_id");
  if (!symbol || symbol->st_size != sizeof(std::uint64_t)) return std::nullopt;
  const auto data = section(image, *elf, symbol->st_shndx);
  if (!data || data->sh_type == SHT_NOBITS) return std::nullopt;
  const auto bytes = part(image, data->sh_offset, data->sh_size);
  // A cubin's values are offsets in the section; those of a linked file are addresses.
  if (!bytes || symbol->st_value < data->sh_addr) return std::nullopt;
  return read<std::uint64_t>(*bytes, symbol->st_value - data->sh_addr);
}

}  // namespace fusetune::backend::cuda
