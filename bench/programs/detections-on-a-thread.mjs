// The built-in function on a thread of its own, as README has it for thousands of boxes.
import { nonMaxSuppression } from 'zerohop/function'

export default nonMaxSuppression().run
