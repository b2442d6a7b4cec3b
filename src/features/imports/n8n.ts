import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { GUID } from '../../model/manifest.ts';
import { areAddresses } from './addresses.ts';
import {
  type Imported,
  type ImportedTrigger,
  type Members,
  membersIn,
  membersOf,
  NotReadable,
  objectsIn,
  quoted,
  schemeCalled,
  textOf,
} from './imported.ts';

/** Names that differ between n8n and Sluice. */
const OTHER_NAMES: Readonly<Record<string, string>> = { awssns: 'AmazonSns', facebookleadads: 'Meta' };

/** Webhooks and publishers' triggers of exported workflows: n8n's `Webhook` node 1 to 2.1, read 2026-11. */
export function readN8n(document: unknown): Imported {
  const workflows = [...objectsIn(document, ({ nodes }) => !Array.isArray(nodes))].filter(({ nodes }) =>
    Array.isArray(nodes),
  );
  const triggers: ImportedTrigger[] = [];
  const leftOut: string[] = [];
  for (const workflow of workflows) {
    const nodes = membersIn(workflow.nodes);
    const starts = nodes.filter((node) => kindOf(node) !== undefined);
    const others = nodes.filter((node) => !starts.includes(node) && node.type !== 'n8n-nodes-base.stickyNote');
    for (const node of starts) {
      const trigger = triggerOf(node, workflow, others);
      if (typeof trigger === 'string') leftOut.push(`the node ${quoted(nameOf(node))}: ${trigger}`);
      else triggers.push(trigger);
    }
  }
  if (triggers.length + leftOut.length === 0) throw new NotReadable('there is no workflow with a webhook in it');
  return { triggers, leftOut };
}

const nameOf = ({ name }: Members) => textOf(name) ?? 'webhook';

/** `webhook`, or the publisher of the node; undefined for a node that no webhook starts. */
function kindOf({ type }: Members): string | undefined {
  const [, kind] = /^n8n-nodes-base\.(\w+)$/.exec(textOf(type) ?? '') ?? [];
  if (kind === 'webhook') return kind;
  const publisher = /^(\w+)Trigger$/.exec(kind ?? '')?.[1];
  return publisher !== undefined && !NOT_CALLED.has(publisher) ? publisher : undefined;
}

/** Triggers that publishers do not call. */
const NOT_CALLED = new Set(
  'chat error evaluation executeWorkflow form interval localFile manual mqtt n8n rssFeedRead schedule sse workflow'.split(
    ' ',
  ),
);

/** The trigger, or the reason why there is none. */
function triggerOf(node: Members, workflow: Members, others: readonly Members[]): ImportedTrigger | string {
  if (node.disabled === true) return 'it is disabled there';
  const kind = kindOf(node) ?? '';
  const common = {
    name: `${textOf(workflow.name) ?? 'workflow'} ${nameOf(node)}`,
    notTaken: [
      ...others.filter(mayVerify).map((it) => `what the node ${quoted(nameOf(it))} may verify; --from code reads code`),
      ...(others.length === 0 ? [] : [`what it starts: ${others.length} nodes of the workflow`]),
    ],
  };
  if (kind === 'webhook') return webhookOf(node, common);
  const scheme = schemeCalled(OTHER_NAMES[kind.toLowerCase()] ?? kind);
  if (scheme === undefined) return `Sluice has no scheme for ${quoted(kind)}, or n8n asks it instead of being called`;
  const notes = ['n8n entered its URL at the publisher by itself; enter the new one by hand'];
  return { ...common, verifiedBy: { scheme }, key: {}, notes };
}

/** Without authentication in the webhook itself, a later node may compare a signature. */
function mayVerify({ type, parameters }: Members): boolean {
  const { action, jsCode, functionCode, pythonCode } = membersOf(parameters) ?? {};
  if (type === 'n8n-nodes-base.crypto') return action === 'hmac' || action === 'sign';
  return [jsCode, functionCode, pythonCode].some((code) => /hmac|verify/i.test(textOf(code) ?? ''));
}

interface Common {
  readonly name: string;
  readonly notTaken: readonly string[];
}

function webhookOf({ parameters: given, credentials }: Members, common: Common): ImportedTrigger | string {
  const { httpMethod = 'GET', path, authentication = 'none', options, responseMode } = membersOf(given) ?? {};
  const methods = [httpMethod].flat().map((it) => textOf(it) ?? JSON.stringify(it));
  if (!methods.includes('POST')) return `it takes ${methods.map(quoted).join(', ')}, and a trigger POST`;
  const addresses = addressesOf(membersOf(options) ?? {});
  if (addresses === undefined) return 'its list of addresses has entries that a trigger does not take';
  const verifiedBy = authenticationOf(authentication);
  if (typeof verifiedBy === 'string') return verifiedBy;
  const [credential] = Object.values(membersOf(credentials) ?? {}).flatMap((it) => textOf(membersOf(it)?.name) ?? []);
  return {
    ...common,
    name: nameIn(path) ?? common.name,
    inputs: addresses,
    verifiedBy,
    key: verifiedBy && {},
    notes: [
      ...(verifiedBy === undefined || credential === undefined
        ? []
        : [`n8n has the key in the credential ${quoted(credential)}`]),
      ...(authentication === 'headerAuth'
        ? [
            'n8n has the name of the header in that credential: unless it is Authorization, with "Bearer " in front of the key, set webhookSignatureHeader',
          ]
        : []),
    ],
    notTaken: [
      ...(authentication === 'headerAuth'
        ? ['the name of the header with the key, which the export does not have']
        : []),
      ...(methods.length > 1 ? [`it takes other methods than POST: ${methods.map(quoted).join(', ')}`] : []),
      ...(responseMode === undefined || responseMode === 'onReceived'
        ? []
        : ['the answer by the workflow: see webhookRespond']),
      ...common.notTaken,
    ],
  };
}

/** n8n generates GUIDs, which mean nothing to people. */
function nameIn(path: unknown): string | undefined {
  const name = textOf(path);
  return name === undefined || GUID.test(name) ? undefined : name;
}

function authenticationOf(authentication: unknown): { readonly inputs: WebhookInputs } | undefined | string {
  switch (authentication) {
    case 'none':
      return undefined;
    case 'basicAuth':
      return { inputs: { webhookSignatureScheme: 'Basic' } };
    case 'headerAuth':
      return { inputs: { webhookSignatureScheme: 'Token' } };
    case 'jwtAuth':
      return { inputs: { webhookSignatureScheme: 'Jwt' } };
    default:
      return `Sluice has nothing for its authentication ${quoted(String(authentication))}`;
  }
}

/** Undefined if a trigger cannot express them: it takes only whole addresses, and n8n also parts of them. */
function addressesOf({ ipWhitelist }: Members): WebhookInputs | undefined {
  const list = Array.isArray(ipWhitelist) ? ipWhitelist : (textOf(ipWhitelist)?.split(',') ?? []);
  const entries = list.map((entry) => (typeof entry === 'string' ? entry.trim() : entry)).filter((it) => it !== '');
  if (entries.length === 0) return ipWhitelist === undefined || ipWhitelist === '' ? {} : undefined;
  return areAddresses(entries) ? { webhookIpAllowList: [...entries] } : undefined;
}
