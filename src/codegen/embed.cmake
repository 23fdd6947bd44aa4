# Writes OUT, a C++ file that holds KERNELS (relative to ROOT/kernels) and TEMPLATES (relative to ROOT/templates) as
# raw strings. Run as a script at build time:
# cmake -DROOT=. -DKERNELS="cpu/gemm.h,..." -DTEMPLATES="cpu_bundle/block.cpp.in,..." -DOUT=embedded.cpp -P embed.cmake
string(REPLACE "," ";" KERNELS "${KERNELS}")
string(REPLACE "," ";" TEMPLATES "${TEMPLATES}")
list(TRANSFORM KERNELS PREPEND kernels/ OUTPUT_VARIABLE paths)
list(TRANSFORM TEMPLATES PREPEND templates/ OUTPUT_VARIABLE template_paths)
list(APPEND paths ${template_paths})
set(text "#include \"codegen/embedded.h\"\n\n#include <array>\n\nnamespace fusetune::codegen {\nnamespace {\n\n")
list(LENGTH paths count)
string(APPEND text "constexpr std::array<EmbeddedFile, ${count}> kFiles{{\n")
foreach(path IN LISTS paths)
  file(READ "${ROOT}/${path}" content)
  string(REGEX REPLACE "^(kernels|templates)/" "" name "${path}")
  string(APPEND text "    {\"${name}\", R\"ft_embedded(${content})ft_embedded\"},\n")
endforeach()
string(APPEND text "}};\n\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n\n"
                   "}  // namespace fusetune::codegen\n")
file(WRITE "${OUT}" "${text}")
