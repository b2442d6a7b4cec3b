import type { Logger } from 'pino';
import type { DeployedFlow } from '../flows/catalog.ts';
import type { UnreadableManifest } from '../manifest/load.ts';

/** What it means that a flow's revision in force lacks something, in one sentence. */
export function whatLacking(name: string, why: string): string {
  return `${name} answers every delivery with 503, and starts no run by hand or by a schedule: ${why}`;
}

/** The same for a manifest of the folder; `flow` is undefined if its flow is not deployed. */
export function whatUnreadable({ flowId, name, why }: UnreadableManifest, flow: DeployedFlow | undefined): string {
  if (flowId === undefined) return `A manifest cannot be read; its flow goes on as it was deployed, if it was: ${why}`;
  if (flow === undefined || flow.loaded.unreadable !== undefined) return whatLacking(name, why);
  const { record } = flow;
  return `The manifest of ${record.name} cannot be deployed, and revision ${record.revision} stays in force: ${why}`;
}

/** Logs which manifests are not deployed as they are. */
export function logUnreadable(
  unreadable: readonly UnreadableManifest[],
  { find, logger }: { readonly find: (flowId: string) => DeployedFlow | undefined; readonly logger: Logger },
): void {
  for (const manifest of unreadable) {
    const { file, flowId, name } = manifest;
    const flow = flowId === undefined ? undefined : find(flowId);
    logger.error({ file, flowId, name }, whatUnreadable(manifest, flow));
  }
}
