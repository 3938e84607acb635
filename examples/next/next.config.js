/** @type {import('next').NextConfig} */
export default {
  // Its workers and its addon are files, which a bundle does not have.
  serverExternalPackages: ['zerohop'],
}
