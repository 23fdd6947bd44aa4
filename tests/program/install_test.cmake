# Installs into a directory, moves that elsewhere (a space in its name), and runs the program from / there.

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors
                  WORKING_DIRECTORY /)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed (${result}):\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${TEST_DIRECTORY})
run(${CMAKE_COMMAND} --install ${BUILD_DIRECTORY} --prefix ${TEST_DIRECTORY}/installed)
set(moved "${TEST_DIRECTORY}/moved elsewhere")
file(RENAME ${TEST_DIRECTORY}/installed "${moved}")

run("${moved}/${BIN}/fusetune" translate 6826)
if(NOT output STREQUAL "6826 0 2 1 2 3 4\n")
  message(FATAL_ERROR "translate 6826 printed '${output}', not '6826 0 2 1 2 3 4'")
endif()
foreach(document README.md CHANGELOG.md LICENSE)
  if(NOT EXISTS "${moved}/${DOC}/${document}")
    message(FATAL_ERROR "${DOC}/${document} was not installed")
  endif()
endforeach()
file(REMOVE_RECURSE ${TEST_DIRECTORY})
