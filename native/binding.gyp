# The source build that node-gyp users expect; developers use CMake (CMakeLists.txt). One list of sources serves both.
# Not in the package's root: npm would take it for an install script, and build the addon, or fail to, at each `npm ci`.
{
  'targets': [
    {
      'target_name': 'zerohop',
      'sources': [
        '<!@(node -p "const s = require(\'./sources.json\'); [...s.core, ...s.addon].join(\' \')")',
      ],
      'include_dirs': ['.'],
      'dependencies': ['<!(node -p "require(\'node-addon-api\').targets"):node_addon_api_except'],
      'defines': ['NAPI_VERSION=8', 'NODE_ADDON_API_CPP_EXCEPTIONS_ALL', 'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS', 'NOMINMAX'],
      'cflags_cc': ['-std=c++17', '-fvisibility=hidden'],
      'conditions': [
        ['OS=="linux"', { 'libraries': ['-ldl'] }],
      ],
      'xcode_settings': { 'CLANG_CXX_LANGUAGE_STANDARD': 'c++17', 'GCC_SYMBOLS_PRIVATE_EXTERN': 'YES' },
      'msvs_settings': { 'VCCLCompilerTool': { 'AdditionalOptions': ['/std:c++17'] } },
    },
  ],
}
