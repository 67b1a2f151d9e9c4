#pragma once

#include <string>
#include <string_view>

#include "profiles/trace.h"

namespace dettax {

// Whether a kernel of this name computes, communicates or fills. A name that nothing is known of computes: where time goes is told by
// paths, and a collective is also known by what the trace says about it.
Category category_of_kernel(std::string_view name);

// What a call of a device runtime or driver does, by its name.
Category category_of_call(std::string_view name);

// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel"; a call's name as CUPTI numbers its versions.
std::string without_version(const std::string& call);

// Whether work under an operation of this name communicates, whatever its kernels are called.
bool is_communication_op(std::string_view name);

// "allreduce" and its kin, from the name of a collective or its kernel; empty if the name does not say.
std::string_view collective_kind(std::string_view name);

}  // namespace dettax
