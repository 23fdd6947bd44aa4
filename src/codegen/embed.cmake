# Writes OUT, a C++ file that holds FILES (relative to ROOT; in kernels/, templates/ or src/) as raw strings. Run as a
# script at build time:
# cmake -DROOT=. -DFILES="kernels/cpu/gemm.h,templates/cpu_bundle/block.cpp.in,..." -DOUT=embedded.cpp -P embed.cmake
string(REPLACE "," ";" paths "${FILES}")
set(text "#include \"codegen/embedded.h\"\n\n#include <array>\n\nnamespace fusetune::codegen {\nnamespace {\n\n")
list(LENGTH paths count)
string(APPEND text "constexpr std::array<EmbeddedFile, ${count}> kFiles{{\n")
foreach(path IN LISTS paths)
  file(READ "${ROOT}/${path}" content)
  string(REGEX REPLACE "^(kernels|templates|src)/" "" name "${path}")
  string(APPEND text "    {\"${name}\", R\"ft_embedded(${content})ft_embedded\"},\n")
endforeach()
string(APPEND text "}};\n\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n\n"
                   "}  // namespace fusetune::codegen\n")
file(WRITE "${OUT}" "${text}")
