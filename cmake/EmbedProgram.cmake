# embed_program(library symbol target): makes the bytes of a built program part of a library, as
# `extern const unsigned char <symbol>_begin[], <symbol>_end[]`. The daemon starts it from a sealed
# memfd, so what runs is exactly what was built, whatever happens to the files on disk.
function(embed_program library symbol target)
  set(assembly ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S)
  file(GENERATE OUTPUT ${assembly} CONTENT
"        .section .rodata
        .global ${symbol}_begin, ${symbol}_end
        .balign 16
${symbol}_begin:
        .incbin \"$<TARGET_FILE:${target}>\"
${symbol}_end:
        .section .note.GNU-stack,\"\",@progbits
")
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${target})
  target_sources(${library} PRIVATE ${assembly})
  add_dependencies(${library} ${target})
endfunction()
