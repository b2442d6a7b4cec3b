import type { Logger } from 'pino';
import type { DeployedFlow } from '../flows/catalog.ts';
import type { UnreadableManifest } from '../manifest/load.ts';

/** What it means that a flow's revision in force lacks something, in one sentence. */
export function whatLacking(name: string, why: string): string {
  return `${name} answers every delivery with 503, and starts no run by hand or by a schedule: ${why}`;
}

interface InForce {
  readonly find: (flowId: string) => DeployedFlow | undefined;
  /** Whether deliveries to a slug reach a trigger. */
  readonly isServed: (slug: string) => boolean;
}

/** The same for a manifest of the folder. */
export function whatUnreadable(
  { flowId, name, why, webhooks }: UnreadableManifest,
  { find, isServed }: InForce,
): string {
  if (flowId === undefined) return `A manifest cannot be read; its flow goes on as it was deployed, if it was: ${why}`;
  const flow = find(flowId);
  if (flow?.loaded.unreadable !== undefined) return whatLacking(name, why);
  if (flow !== undefined) {
    const { record } = flow;
    return `The manifest of ${record.name} cannot be deployed, and revision ${record.revision} stays in force: ${why}`;
  }
  const ofOthers = webhooks.flatMap(({ slug }) => (slug !== undefined && isServed(slug) ? [slug] : []));
  if (ofOthers.length === 0) return whatLacking(name, why);
  return (
    `${name} gets no delivery to ${ofOthers.join(', ')}, which other flows answer; it answers all others with 503, ` +
    `and starts no run by hand or by a schedule: ${why}`
  );
}

/** Logs which manifests are not deployed as they are. */
export function logUnreadable(
  unreadable: readonly UnreadableManifest[],
  { logger, ...inForce }: InForce & { readonly logger: Logger },
): void {
  for (const manifest of unreadable) {
    const { file, flowId, name } = manifest;
    logger.error({ file, flowId, name }, whatUnreadable(manifest, inForce));
  }
}
