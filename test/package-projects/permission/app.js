import { askDigits } from '../digits.js'

askDigits()
