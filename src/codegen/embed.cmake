# Writes OUT, a C++ file that holds FILES (relative to ROOT; in kernels/, templates/ or src/) as raw strings, for
# FOLDER/embedded.h, which is codegen's unless it is given. Of a file elsewhere (an absolute path), and of one in
# templates/FOLDER, the name alone is kept. Run as a script at build time:
# cmake -DROOT=. -DFILES="kernels/cpu/gemm.h,templates/cpu_bundle/block.cpp.in,..." -DOUT=embedded.cpp -P embed.cmake
if(NOT DEFINED FOLDER)
  set(FOLDER codegen)
endif()
string(REPLACE "," ";" paths "${FILES}")
set(text "#include \"${FOLDER}/embedded.h\"\n\n#include <array>\n\nnamespace fusetune::${FOLDER} {\nnamespace {\n\n")
list(LENGTH paths count)
string(APPEND text "constexpr std::array<EmbeddedFile, ${count}> kFiles{{\n")
foreach(path IN LISTS paths)
  if(IS_ABSOLUTE "${path}")
    file(READ "${path}" content)
    cmake_path(GET path FILENAME name)
  else()
    file(READ "${ROOT}/${path}" content)
    string(REGEX REPLACE "^(templates/${FOLDER}|kernels|templates|src)/" "" name "${path}")
  endif()
  string(APPEND text "    {\"${name}\", R\"ft_embedded(${content})ft_embedded\"},\n")
endforeach()
string(APPEND text "}};\n\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n\n"
                   "}  // namespace fusetune::${FOLDER}\n")
file(WRITE "${OUT}" "${text}")
