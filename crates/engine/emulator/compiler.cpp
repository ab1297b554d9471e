// NVRTC: CUDA C++ is translated to C++ and compiled by the host's compiler. A "cubin" is a shared object.
//
// Three things are not C++: inline PTX becomes calls of functions that kernel.h defines, named by the instruction; variables of
// shared memory become references into it; and every kernel gets a function that calls it with arguments as the driver has them.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "emulator.h"

namespace {

struct Program {
    std::string source, log, object;
};

std::string without_spaces(const std::string& text) {
    const size_t first = text.find_first_not_of(" \n\t"), last = text.find_last_not_of(" \n\t");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// Cuts at a character outside of strings and parentheses.
std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts(1);
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '\\') {
            parts.back() += text.substr(i++, 2);
            continue;
        }
        if (c == '"') quoted = !quoted;
        if (!quoted) depth += (strchr("([{", c) != nullptr) - (strchr(")]}", c) != nullptr);
        if (c == at && !quoted && depth == 0) parts.emplace_back();
        else parts.back() += c;
    }
    return parts;
}

// The instruction that an inline PTX text is about, as part of a name.
std::string instruction_of(const std::string& text) {
    size_t start = 0;
    // Where others prepare for it or follow it.
    for (const char* main : {"wgmma.mma_async", "mbarrier.try_wait"})
        if (const size_t at = text.find(main); at != std::string::npos) start = at;
    std::string name;
    for (size_t i = start; i < text.size() && !strchr(" ;\\", text[i]); ++i) name += isalnum((unsigned char)text[i]) ? text[i] : '_';
    return name.empty() ? "nothing" : name;
}

// `asm volatile("text" : outputs : inputs : clobbers)` as a call.
std::string call_of(const std::string& statement) {
    const std::vector<std::string> parts = split(statement, ':');
    std::string text, arguments;
    for (size_t i = 0, quoted = 0; i < parts[0].size(); ++i) {
        if (parts[0][i] == '"') quoted = !quoted;
        else if (quoted) text += parts[0][i];
    }
    for (size_t part = 1; part < parts.size() && part < 3; ++part)
        for (const std::string& operand : split(parts[part], ',')) {
            const std::string whole = without_spaces(operand);
            if (whole.empty()) continue;
            const size_t open = whole.find('(');
            arguments += (arguments.empty() ? "(" : ", (") + whole.substr(open + 1, whole.rfind(')') - open - 1) + ")";
        }
    return "ptx_" + instruction_of(text) + "(" + arguments + ")";
}

std::string without_asm(const std::string& source) {
    static const std::regex start(R"(\basm\s*(volatile\s*)?\()");
    std::string out;
    auto from = source.begin();
    for (std::smatch found; std::regex_search(from, source.end(), found, start);) {
        out.append(from, found[0].first);
        auto at = found[0].second;
        bool quoted = false;
        for (int depth = 1; depth > 0 && at != source.end(); ++at) {
            if (*at == '"' && at[-1] != '\\') quoted = !quoted;
            if (!quoted) depth += (*at == '(') - (*at == ')');
        }
        out += call_of(std::string(found[0].second, at - 1));
        from = at;
    }
    return out.append(from, source.end());
}

std::string with_shared_memory(std::string source) {
    // extern __shared__ __align__(16) T name[];
    static const std::regex dynamic(R"(extern\s+__shared__\s+(?:__align__\(\w+\)\s+)?([\w ]+?)\s+(\w+)\[\];)");
    source = std::regex_replace(source, dynamic, "$1* const $2 = static_cast<$1*>(emulated_dynamic_shared());");
    static const std::regex variable(R"(__shared__\s+(?:__align__\((\w+)\)\s+)?(\w+)\s+(\w+)((?:\[[^;]*\])?);)");
    std::string out;
    int number = 0;
    auto from = source.cbegin();
    for (std::smatch found; std::regex_search(from, source.cend(), found, variable);) {
        out.append(from, found[0].first);
        const std::string alignment = found[1].matched ? ", " + found[1].str() : "";
        out += "auto& " + found[3].str() + " = emulated_shared_variable<" + found[2].str() + found[4].str() + ", " +
               std::to_string(number++) + alignment + ">();";
        from = found[0].second;
    }
    return out.append(from, source.cend());
}

std::string launchers(const std::string& source) {
    static const std::regex kernel(R"(__global__\s+void\s+(?:__launch_bounds__\([^)]*(?:\([^)]*\)[^)]*)*\)\s*)?(\w+)\s*\()");
    std::string out;
    for (std::sregex_iterator found(source.begin(), source.end(), kernel), end; found != end; ++found) {
        const std::string name = (*found)[1];
        out += "extern \"C\" UNWATCHED void launch_" + name + "(void** arguments) { emulated_call(" + name + ", arguments); }\n";
        out += "extern \"C\" const size_t* sizes_" + name + "() { return emulated_sizes(" + name + "); }\n";
    }
    return out;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

bool compile(Program& program, int architecture) {
    char folder[] = "/tmp/emulated-cuda-XXXXXX";
    if (!mkdtemp(folder)) return false;
    const std::string base = folder, header = EMULATOR_SOURCES "/kernel.h";
    std::ofstream(base + "/kernel.cpp") << "#define __CUDA_ARCH__ " << architecture << "\n#include \"" << header << "\"\n#line 1 \"kernel.cu\"\n"
                                         << with_shared_memory(without_asm(program.source)) << "\n"
                                         << launchers(program.source);
    const std::string in = base + "/";
    const std::string command = "c++ -std=c++17 -O1 -fPIC -fno-exceptions -fno-rtti -w -fno-strict-aliasing -fno-tree-sra -ffp-contract=fast -mfma"
                                " -fsanitize=thread --param tsan-instrument-func-entry-exit=0"
                                " -c -o " + in + "kernel.o " + in + "kernel.cpp >" + in + "log 2>&1"
                                " && c++ -shared -o " + in + "kernel.so " + in + "kernel.o -Wl,-Bsymbolic,--wrap=memcpy " EMULATOR_LIBRARY
                                " -Wl,-rpath," EMULATOR_FOLDER " >>" + in + "log 2>&1";
    const bool compiled = system(command.c_str()) == 0;
    program.log = read_file(base + "/log");
    program.object = read_file(base + "/kernel.so");
    if (getenv("ICLAB_EMULATOR_KEEP") == nullptr) {
        for (const char* name : {"/kernel.cpp", "/kernel.o", "/kernel.so", "/log"}) unlink((base + name).c_str());
        rmdir(folder);
    }
    return compiled;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    // Objects of another version of the emulator are not found in the cache of kernels.
    *major = 0;
    *minor = EMULATOR_VERSION;
    return 0;
}

int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
    *program = new Program{source, "", ""};
    return 0;
}

int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    int architecture = 800;
    for (int i = 0; i < count; ++i)
        if (strncmp(options[i], "-arch=sm_", 9) == 0) architecture = 10 * atoi(options[i] + 9);
    return compile(*program, architecture) ? 0 : 6;
}

int nvrtcGetProgramLogSize(Program* program, size_t* size) {
    *size = program->log.size() + 1;
    return 0;
}

int nvrtcGetProgramLog(Program* program, char* log) {
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return 0;
}

int nvrtcGetCUBINSize(Program* program, size_t* size) {
    *size = program->object.size();
    return 0;
}

int nvrtcGetCUBIN(Program* program, char* cubin) {
    memcpy(cubin, program->object.data(), program->object.size());
    return 0;
}

int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return 0;
}

const char* nvrtcGetErrorString(int) { return "the host's compiler refuses it"; }

}  // extern "C"
