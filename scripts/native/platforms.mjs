// The platforms that onnxruntime-node has binaries for, and what the cross compiler is to know of each.

/** Of glibc 2.28 on, as onnxruntime-node's own binaries. */
const linux = (target) => ({
  target: `${target}-linux-gnu.2.28`,
  link: [
    '-shared',
    '-s',
    '-Wl,--gc-sections',
    '-Wl,--build-id=none',
    '-Wl,--version-script=scripts/native/exports.map',
    '-ldl',
    '-lpthread',
  ],
})
/** What Node brings is found when the addon is loaded. */
const darwin = (target) => ({
  target: `${target}-macos.13.3`,
  link: [
    '-dynamiclib',
    '-undefined',
    'dynamic_lookup',
    '-Wl,-dead_strip',
    '-Wl,-x',
    '-Wl,-S',
    '-Wl,-install_name,@rpath/zerohop.node',
  ],
})
/** What Node brings is imported from node.exe, by a library made of node-api-headers' lists. */
const windows = (target, machine) => ({
  target: `${target}-windows-gnu`,
  machine,
  link: ['-shared', '-s', '-Wl,--gc-sections'],
})

/** By the names of their folders in prebuilds/, as prebuildName() of src/native/addon.ts has them. */
export const platforms = {
  'linux-x64': linux('x86_64'),
  'linux-arm64': linux('aarch64'),
  'darwin-x64': darwin('x86_64'),
  'darwin-arm64': darwin('aarch64'),
  'win32-x64': windows('x86_64', 'i386:x86-64'),
  'win32-arm64': windows('aarch64', 'arm64'),
}
