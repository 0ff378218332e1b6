/** The folders of `examples/playground`, put in by build.mjs: their files by name. */
declare module "examples" {
  const folders: Record<string, Record<string, string>>;
  export default folders;
}
