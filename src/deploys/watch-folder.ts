import { watch } from 'node:fs';
import type { Logger } from 'pino';

/** An editor or a checkout writes files in several goes: so long nothing may have happened before they are read. */
const QUIET_MS = 200;

/** Calls back when manifests in the folder have changed; yields how to stop. */
export function watchFolder(folder: string, onChange: () => void, logger: Logger): () => void {
  let timer: NodeJS.Timeout | undefined;
  const watcher = watch(folder, (_event, name) => {
    // Where the system does not say which file it was, it may have been a manifest.
    if (name !== null && !name.endsWith('.json')) return;
    clearTimeout(timer);
    timer = setTimeout(onChange, QUIET_MS).unref();
  });
  watcher.on('error', (error) => {
    logger.error({ err: error, folder }, 'the folder of manifests is watched no more; a reload takes changes up');
  });
  return () => {
    clearTimeout(timer);
    watcher.close();
  };
}
