import { describe, expect, it } from 'vitest';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import {
  type SchemeTrait,
  WEBHOOK_ROWS,
  type WebhookField,
  type WebhookInputs,
} from '../../src/manifest/webhook-fields.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { PUBLISHERS } from '../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, listSchemes, resolveScheme } from '../../src/webhooks/schemes/resolve.ts';
import { exampleOf, FIELDS } from '../manifest/field-edits.ts';
import { sampleSettings, sampleTrigger } from './samples.ts';
import { builtIn, KEYS } from './schemes/fixtures.ts';

const verify = () => ({ outcome: 'verified' as const });
const answer = () => ({ statusCode: 200, contentType: 'text/plain', body: '' });
const handshake = { name: 'hello', method: 'GET', needsVerification: false, recognises: () => true, answer } as const;

const schemes = createSchemeRegistry({
  verifiers: [
    { name: 'Acme', verify },
    { name: 'Greeter', verify, handshakes: [{ ...handshake, needsVerifyToken: true }] },
  ],
  specs: [
    { ...builtIn('GitHub'), name: 'Forge' },
    { name: 'Short', headerName: 'X-Short', algorithm: 'sha1', encoding: 'hexLower', signedPayloadStrategy: 'RawBody' },
  ],
});
const KNOWN = listSchemes(schemes);
const SCHEMES = KNOWN.map(({ name }) => name);

/** The schemes with each trait. */
const SCHEMES_WITH: Readonly<Record<SchemeTrait, readonly string[]>> = {
  custom: ['Custom'],
  'short spec': ['Short'],
  'names no header': ['Token', 'Jwt'],
  jwt: ['Jwt'],
  'message signatures': ['HttpMessageSignatures'],
  'publisher asks for it': [],
  'may sign with SHA-1': PUBLISHERS.filter((row) => JSON.stringify(row).match(/"(sha1|rsaSha1)"/)).map(
    ({ name }) => name,
  ),
  'has a test system': ['PayPal'],
  'hands over its key': ['Asana'],
  'needs a verify token': ['Greeter', 'Meta'],
};

/** Publishers that sign by a standard and leave one of its fields to the trigger. */
const ASKING: Partial<Record<WebhookField, string>> = {
  webhookJwksUrl: 'Kinde',
  webhookJwtIssuer: 'JiraConnect',
  webhookJwtAudience: 'Monday',
};

/** Schemes that read a field, in the order of the list. */
function readersOf(field: WebhookField): readonly string[] {
  const { readBy } = WEBHOOK_ROWS[field];
  if (readBy === 'every scheme') return SCHEMES;
  const asks = readBy.includes('publisher asks for it') ? [ASKING[field]] : [];
  const readers = [...asks, ...readBy.flatMap((trait) => SCHEMES_WITH[trait])];
  return SCHEMES.filter((name) => readers.includes(name));
}

/** One scheme of each kind, and all that read a field which others do not. */
const SAMPLES = [
  ...new Set([
    ...new Map(KNOWN.map(({ kind, name }) => [kind, name])).values(),
    ...Object.values(SCHEMES_WITH).flat(),
    ...Object.values(ASKING),
  ]),
];

const check = webhookChecks(gatePreparer(gateChain(), sampleSettings({ schemes })));
/** The errors about fields that are not read. */
function unread(inputs: WebhookInputs): unknown[] {
  const flow = { webhooks: [sampleTrigger(inputs)] } as unknown as LoadedFlow;
  return check(flow)
    .filter(({ severity, message }) => severity === 'error' && message.startsWith('is not read'))
    .map(({ path, message }) => `${path}: ${message}`);
}

/** The fields that such a publisher requires. */
const ASKED: Readonly<Record<string, WebhookInputs>> = {
  JiraConnect: { webhookJwtIssuer: 'publisher' },
  Kinde: { webhookHmacKey: undefined, webhookJwksUrl: 'https://publisher.example/keys' },
  ConstantContact: { webhookHmacKey: undefined },
  Monday: { webhookJwtAudience: 'hooks' },
};

const named = (scheme: string): WebhookInputs => ({
  webhookSignatureScheme: scheme,
  webhookHmacKey:
    KEYS[scheme] ?? (scheme === 'Basic' ? 'sender:a password of sixteen' : 'a key of more than sixteen bytes'),
  ...(scheme === 'Custom' ? { webhookSignatureHeader: 'X-Signature' } : {}),
  ...ASKED[scheme],
});

it('knows the schemes', () => {
  expect(SCHEMES.length).toBeGreaterThan(40);
});

describe.each(FIELDS)('%s', (field) => {
  const value = exampleOf(field);
  const readers = readersOf(field);
  const at = `triggers.webhook.inputs.${field}`;

  it('is an error that names the scheme that does not read it, and those that do', () => {
    for (const scheme of SAMPLES) {
      const inputs: WebhookInputs = { [field]: value, ...named(scheme) };
      const isRead = readers.includes(scheme);
      const problem = `${at}: is not read by ${scheme}; schemes that read it: ${readers.join(', ')}`;
      expect(unread(inputs), scheme).toEqual(isRead ? [] : [problem]);
    }
  });

  it('changes nothing of a scheme that does not read it', () => {
    for (const scheme of SAMPLES.filter((name) => !readers.includes(name))) {
      const [before, after] = [named(scheme), { ...named(scheme), [field]: value }];
      expect(resolveScheme(schemes, after), scheme).toEqual(resolveScheme(schemes, before));
    }
  });

  it('is an error without any scheme if only schemes read it', () => {
    const problem = `${at}: is not read: webhookSignatureScheme is missing; schemes that read it: ${readers.join(', ')}`;
    expect(unread({ [field]: value })).toEqual(readers === SCHEMES ? [] : [problem]);
  });
});

it.each(['webhookLearnKey', 'webhookAllowSha1', 'webhookSandbox', 'webhookAcceptMultipleSignatures'])(
  'asks for nothing with %s false',
  (field) => expect(unread({ ...named('GitLab'), [field]: false })).toEqual([]),
);

it('says nothing of the fields of a scheme that is unknown: that is told instead', () => {
  expect(unread({ ...named('Nobody'), webhookSignatureHeader: 'X-Signature' })).toEqual([]);
});
