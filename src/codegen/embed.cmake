# Writes OUT, a C++ file that holds FILES (relative to ROOT) as raw strings. Run as a script at build time:
# cmake -DROOT=kernels -DFILES="cpu/gemm.h,..." -DOUT=embedded.cpp -P embed.cmake
string(REPLACE "," ";" FILES "${FILES}")
set(text "#include \"codegen/embedded.h\"\n\n#include <array>\n\nnamespace fusetune::codegen {\nnamespace {\n\n")
list(LENGTH FILES count)
string(APPEND text "constexpr std::array<EmbeddedFile, ${count}> kFiles{{\n")
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" content)
  string(APPEND text "    {\"${file}\", R\"ft_embedded(${content})ft_embedded\"},\n")
endforeach()
string(APPEND text "}};\n\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n\n"
                   "}  // namespace fusetune::codegen\n")
file(WRITE "${OUT}" "${text}")
