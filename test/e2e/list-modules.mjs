// Loaded with --import: at exit, writes the modules that the process loaded into the file that MODULES_FILE names.
// Files by URL, Node's modules by name, including internal ones.
import { writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const files = [];
if (isMainThread) {
  registerHooks({
    load(url, context, next) {
      if (url.startsWith('file:')) files.push(url);
      return next(url, context);
    },
  });
  process.on('exit', () => {
    const own = process.moduleLoadList.map((name) => name.replace(/^NativeModule /, 'node:'));
    writeFileSync(process.env.MODULES_FILE, JSON.stringify([...files, ...own]));
  });
}
