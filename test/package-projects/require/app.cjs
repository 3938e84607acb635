const { exports: entries } = require('zerohop/package.json')

for (const entry of Object.keys(entries)) require(entry.replace('.', 'zerohop'))
require('../digits.js').askDigits()
