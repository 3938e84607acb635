// Writes the inspector's page for `zerohop`, which serves it with only the title replaced: a step of `npm run
// build:ts`.
import { writeFileSync } from 'node:fs'
import { inspectorPage } from './page-template.ts'

const [, , file] = process.argv
writeFileSync(file!, JSON.stringify(inspectorPage('{{title}}')))
