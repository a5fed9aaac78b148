// SPDX-License-Identifier: Apache-2.0
// Sets of cores (hardware threads, as the operating system numbers them): those that ranks may use, and memory domains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shoal/comm/wait.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

using comm::CoreMask;

/// The cores that each rank of this node may use, by local rank. Collective over the node.
std::vector<CoreMask> cores_of_node(comm::World& world);

/// The cores of each memory domain (NUMA node) of this machine. Domains without cores are left out. Empty if the system does
/// not tell.
std::vector<CoreMask> memory_domains();

int number_of(const CoreMask& cores);
bool overlap(const CoreMask& one, const CoreMask& other);
bool contains(const CoreMask& whole, const CoreMask& part);
CoreMask united(const CoreMask& one, const CoreMask& other);

/// "0-3,8": the form in which the Linux kernel lists the cores of a set.
std::string list_of(const CoreMask& cores);
/// Reads such a list, up to the first word that is none, and leaves out cores that a CoreMask has no bit for.
CoreMask cores_in(std::string_view list);

}  // namespace shoal::app
