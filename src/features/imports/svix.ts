import {
  type Imported,
  type ImportedTrigger,
  type Members,
  membersOf,
  NotReadable,
  objectsIn,
  quoted,
  schemeCalled,
  textOf,
} from './imported.ts';

/** Types of Svix Ingest that sign by Standard Webhooks: those with its `SvixConfig`, svix 2.5.0, read 2026-11. */
const STANDARD = new Set(
  (
    'beehiiv brex clerk guesty incident-io lithic nash open-ai pleo psi-fi render replicate resend safebase sardine stych ' +
    'stytch svix'
  ).split(' '),
);

/** Sources of Svix Ingest: an answer of its API or CLI about one or more. */
export function readSvix(document: unknown): Imported {
  const sources = [...objectsIn(document, (members) => !isSource(members))].filter(isSource);
  if (sources.length === 0) throw new NotReadable('there is no source of Svix Ingest in it');
  const triggers: ImportedTrigger[] = [];
  const leftOut: string[] = [];
  for (const source of sources) {
    const trigger = triggerOf(source);
    if (typeof trigger === 'string') leftOut.push(`the source ${quoted(nameOf(source))}: ${trigger}`);
    else triggers.push(trigger);
  }
  return { triggers, leftOut };
}

const nameOf = ({ uid, name }: Members) => textOf(name) ?? textOf(uid) ?? 'source';

const isSource = ({ name, type }: Members) =>
  typeof name === 'string' && typeof type === 'string' && /^[a-z][a-z0-9-]*$/i.test(type);

/** The trigger, or the reason why there is none. */
function triggerOf(source: Members): ImportedTrigger | string {
  const { type, config } = source;
  const kind = (textOf(type) ?? '').replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();
  const common = { name: nameOf(source), notes: [], notTaken: [] };
  if (kind === 'cron') return 'it is a schedule: write a trigger of type cron';
  if (kind === 'generic-webhook') return { ...common, verifiedBy: undefined };
  const scheme = STANDARD.has(kind) ? 'StandardWebhooks' : schemeCalled(kind);
  if (scheme === undefined) return `Sluice has no scheme for ${quoted(kind)}`;
  const name = ['secret', 'publicKey'].find((key) => textOf(membersOf(config)?.[key]) !== undefined);
  return { ...common, verifiedBy: { scheme }, key: { at: name && `config.${name}` } };
}
