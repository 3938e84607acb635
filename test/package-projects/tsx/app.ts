import { InferenceError, type InferenceErrorCode } from 'zerohop'
import { askDigits } from '../digits.js'

const code: InferenceErrorCode = new InferenceError('ERR_CLOSED', 'closed').code
if (code !== 'ERR_CLOSED') throw new Error(code)
await askDigits()
