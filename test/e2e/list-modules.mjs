// Loaded with --import: writes what the process loaded into the file that MODULES_FILE names, when it exits. Files as their
// URLs, modules of Node by their names, its internal ones too.
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
