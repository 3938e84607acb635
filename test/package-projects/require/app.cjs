const { exports: entries } = require('zerohop/package.json')

for (const entry of Object.keys(entries).filter((name) => !name.endsWith('.onnx'))) require(entry.replace('.', 'zerohop'))
require('../digits.js').askDigits()
