// Files that are mapped into this process's memory, as ONNX Runtime maps the weights that lie beside a model.
#pragma once

#include <functional>
#include <string>

namespace zerohop::ort {

// Enters in this process's page table what the system has in memory of the files that lie in the folder of a model and are mapped.
// Else the first run does that, page by page. What would have to be read from a disk is left to the runs that need it.
//
// Returns how many bytes it has gone through, until `goesOn` is false. On Linux (5.14); elsewhere there is nothing to do.
std::size_t enterResidentPages(const std::string& modelPath, const std::function<bool()>& goesOn);

}  // namespace zerohop::ort
