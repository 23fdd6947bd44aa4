# Writes OUT, a C++ file that holds FILES (separated by commas, in ROOT) as raw strings. Run as a script at build
# time.
string(REPLACE "," ";" FILES "${FILES}")
set(text "#include \"embedded_probes.h\"\n\nnamespace fusetune::device_check {\n\n")
string(APPEND text "std::span<const ProbeFile> probe_files() {\n  static constexpr ProbeFile kFiles[] = {\n")
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" content)
  string(APPEND text "      {\"${file}\", R\"ft_embedded(${content})ft_embedded\"},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace fusetune::device_check\n")
file(WRITE "${OUT}" "${text}")
