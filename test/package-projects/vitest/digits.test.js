import { it } from 'vitest'
import { askDigits } from '../digits.js'

it('answers', () => askDigits())
