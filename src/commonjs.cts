// What `require()` gets where it cannot have ES modules: Node has `module-sync` instead, bundlers `module`.
throw Object.assign(
  new Error(
    "zerohop is an ES module, which cannot be had by require() here: use `const { InferenceEngine } = await import('zerohop')`, or Node.js 20.19, 22.12 or newer. " +
      'In Jest set NODE_OPTIONS=--experimental-vm-modules for that import(), and keep zerohop out of transforms; from Jest 30.5 on Node.js 24.9 require() works as well.',
  ),
  { code: 'ERR_REQUIRE_ESM' },
)
