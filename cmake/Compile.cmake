# How every target is compiled: warnings are errors, hardening is on.

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)

add_library(sandboxd_compile INTERFACE)
target_compile_options(sandboxd_compile INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wimplicit-fallthrough
  -Werror -fno-strict-aliasing
  # False positives of g++ 12 in Abseil's and the standard library's inline code.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-free-nonheap-object;-Wno-restrict>)
target_include_directories(sandboxd_compile INTERFACE ${CMAKE_SOURCE_DIR})

if(SANDBOXD_SANITIZE)
  target_compile_options(sandboxd_compile INTERFACE -fsanitize=${SANDBOXD_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(sandboxd_compile INTERFACE -fsanitize=${SANDBOXD_SANITIZE})
else()
  target_compile_options(sandboxd_compile INTERFACE
    -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
    $<$<CONFIG:Release,RelWithDebInfo>:-D_FORTIFY_SOURCE=2>)
  target_link_options(sandboxd_compile INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# A library is one folder: sandboxd_library(name SOURCES … LINKS …).
function(sandboxd_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(sandboxd_${name} STATIC ${ARG_SOURCES})
  add_library(sandboxd::${name} ALIAS sandboxd_${name})
  target_link_libraries(sandboxd_${name} PUBLIC ${ARG_LINKS} PRIVATE sandboxd_compile)
  target_include_directories(sandboxd_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
endfunction()

# A program without libraries that starts fast and runs where nothing is installed.
function(sandboxd_static_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  # CMake would add -pie or -no-pie, which undo -static-pie.
  set_property(TARGET ${name} PROPERTY POSITION_INDEPENDENT_CODE)
  target_compile_options(${name} PRIVATE
    -fPIE -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Werror -Os -fno-exceptions -fno-rtti -fno-threadsafe-statics
    -fno-strict-aliasing -fno-asynchronous-unwind-tables -fstack-protector-strong -ffunction-sections
    -fdata-sections -fcf-protection=full)
  target_link_options(${name} PRIVATE -static-pie -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,noexecstack -s)
endfunction()
