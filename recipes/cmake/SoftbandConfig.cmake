# ctest on modelled fabrics: softband_add_test() starts programs on the hosts of a fabric of Softband.
#
#   find_package(Softband REQUIRED)
#   softband_add_test(NAME ping FABRIC two-hosts TIMEOUT 60
#                     COMMANDS a "$<TARGET_FILE:ping>" b "$<TARGET_FILE:ping> a")
#   softband_add_test(NAME copies COPIES 4 PROGRAM $<TARGET_FILE:program> arguments)
#
# COMMANDS  a host and its command, servers first. COPIES n PROGRAM instead starts copies of one program.
# FABRIC    name of an installed fabric, or a file of this folder (default: hosts a and b, with COPIES n hosts)
# PACE      virtual (default) or wall
# FAULTS    file of this folder with [[faults]]
# TIMEOUT   whole seconds of the machine's time (default 60)
# OPTIONS   further options of `softband run`
#
# The folder softband/NAME of the build tree keeps output, run.json and counters of the test.

unset(SOFTBAND_EXECUTABLE CACHE)
if(DEFINED ENV{SOFTBAND_BIN})
    set(SOFTBAND_EXECUTABLE "$ENV{SOFTBAND_BIN}" CACHE FILEPATH "the command softband")
else()
    find_program(SOFTBAND_EXECUTABLE softband HINTS "${CMAKE_CURRENT_LIST_DIR}/../bin")
endif()
if(NOT SOFTBAND_EXECUTABLE OR NOT EXISTS "${SOFTBAND_EXECUTABLE}")
    set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
    set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE "no command softband (pip install softband, or set SOFTBAND_BIN to its path)")
    return()
endif()

# Sets `variable` to the path of a file of this folder. Other words, such as names of fabrics, stay.
function(_softband_file variable word)
    get_filename_component(path "${word}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    if(EXISTS "${path}" AND NOT IS_DIRECTORY "${path}")
        set(word "${path}")
    endif()
    set(${variable} "${word}" PARENT_SCOPE)
endfunction()

function(softband_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;FABRIC;PACE;FAULTS;TIMEOUT;COPIES" "COMMANDS;PROGRAM;OPTIONS")
    if(NOT test_NAME)
        message(FATAL_ERROR "softband_add_test: no NAME: each test needs one")
    endif()
    set(where "softband_add_test(${test_NAME})")
    if(test_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "${where}: unknown words ${test_UNPARSED_ARGUMENTS}: the keys are "
            "NAME, FABRIC, PACE, FAULTS, TIMEOUT, COMMANDS, COPIES, PROGRAM and OPTIONS")
    endif()
    set(words --out "${CMAKE_CURRENT_BINARY_DIR}/softband/${test_NAME}" ${test_OPTIONS})

    if(NOT DEFINED test_TIMEOUT)
        set(test_TIMEOUT 60)
    endif()
    if(NOT test_TIMEOUT MATCHES "^[1-9][0-9]*$")
        message(FATAL_ERROR "${where}: TIMEOUT ${test_TIMEOUT}: write whole seconds above 0")
    endif()
    list(APPEND words --timeout ${test_TIMEOUT})
    if(DEFINED test_PACE)
        if(NOT test_PACE MATCHES "^(virtual|wall)$")
            message(FATAL_ERROR "${where}: PACE ${test_PACE}: write virtual or wall")
        endif()
        list(APPEND words --pace ${test_PACE})
    endif()
    if(DEFINED test_FAULTS)
        _softband_file(plan "${test_FAULTS}")
        if(NOT EXISTS "${plan}")
            message(FATAL_ERROR "${where}: FAULTS ${test_FAULTS}: no file of this name in ${CMAKE_CURRENT_SOURCE_DIR}")
        endif()
        list(APPEND words --faults "${plan}")
    endif()
    if(DEFINED test_FABRIC)
        _softband_file(fabric "${test_FABRIC}")
        list(APPEND words "${fabric}")
    endif()

    if(test_COMMANDS AND NOT test_PROGRAM AND NOT test_COPIES)
        while(test_COMMANDS)
            list(LENGTH test_COMMANDS count)
            if(count EQUAL 1)
                message(FATAL_ERROR "${where}: COMMANDS ends with host ${test_COMMANDS}: write a command after each host")
            endif()
            list(POP_FRONT test_COMMANDS host command)
            list(APPEND words --on "${host}" "${command}")
        endwhile()
    elseif(test_PROGRAM AND test_COPIES AND NOT test_COMMANDS)
        list(APPEND words -n "${test_COPIES}" -- ${test_PROGRAM})
    else()
        message(FATAL_ERROR "${where}: write COMMANDS with hosts and commands, or COPIES with a number and PROGRAM")
    endif()

    add_test(NAME "${test_NAME}" COMMAND "${SOFTBAND_EXECUTABLE}" run ${words})
    # Softband ends the run first, and names the wait of each thread.
    math(EXPR limit "${test_TIMEOUT} + 30")
    set_tests_properties("${test_NAME}" PROPERTIES TIMEOUT ${limit})
endfunction()
