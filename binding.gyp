# The build that node-gyp users expect in a checkout; developers, and those who build an installed package, use native/CMakeLists.txt.
# Both read one list of sources. Not among the package's files: yarn would run node-gyp wherever it is installed, and npm is told by
# "gypfile": false in package.json not to run it at each `npm ci`.
{
  'targets': [
    {
      'target_name': 'zerohop',
      'sources': [
        '<!@(node -p "const s = require(\'./native/sources.json\'); [...s.core, ...s.addon].map((file) => \'native/\' + file).join(\' \')")',
      ],
      'include_dirs': ['native'],
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
