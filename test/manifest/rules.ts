// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { z } from 'zod';
import { formatIssue } from '../../src/manifest/issues.ts';
import { type ManifestRules, parseManifest } from '../../src/manifest/load.ts';
import { secretReader } from '../../src/manifest/read-secret.ts';
import type { Json } from '../../src/model/json.ts';

export const FLOW_ID = '0f8fad5b-d9cb-469f-a165-70867728950e';

/** Step types as small as the tests need them. */
const handlers: ManifestRules['handlers'] = new Map([
  ['NoOp', { inputs: z.record(z.string(), z.unknown()), secretInputs: [] }],
  [
    'LogMessage',
    {
      inputs: z.strictObject({ message: z.string(), level: z.enum(['debug', 'info', 'warn', 'error']).optional() }),
      secretInputs: [],
    },
  ],
  [
    'HttpRequest',
    {
      inputs: z.strictObject({
        url: z.url(),
        method: z.enum(['GET', 'POST']).optional(),
        headers: z.record(z.string(), z.string()).optional(),
        query: z.record(z.string(), z.string()).optional(),
        body: z.unknown().optional(),
        forwardBody: z.boolean().optional(),
        expectedStatuses: z.union([z.array(z.union([z.string(), z.number()])), z.string()]).optional(),
        timeoutSeconds: z.number().positive().optional(),
      }),
      secretInputs: ['url', 'headers.*'],
    },
  ],
]);

export const env: Record<string, string | undefined> = {
  GITHUB_KEY: 'a key of the environment',
  GITHUB_KEY_OLD: 'an older key',
  EMPTY: '',
  API_TOKEN: 'Bearer token-of-the-environment',
  HOOK_URL: 'https://example.com/secret-path',
  NOT_A_URL: 'secret but no url',
};

export const rules: ManifestRules = {
  strict: false,
  handlers,
  readSecret: secretReader({ env, baseFolder: '/nowhere' }),
  checks: [],
};

export const strictRules: ManifestRules = { ...rules, strict: true };

/** A manifest without any issue, as its author writes it. */
export function goodManifest() {
  return {
    id: FLOW_ID,
    name: 'Orders',
    version: '1.0.0',
    triggers: {
      github: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'orders',
          webhookSignatureScheme: 'GitHub',
          webhookHmacKey: 'env:GITHUB_KEY',
        } as Record<string, Json>,
      },
      nightly: { type: 'cron', inputs: { cronExpression: '0 2 * * *' } as Record<string, Json> },
      byHand: { type: 'manual' },
    } as Record<string, Record<string, Json>>,
    steps: {
      first: { type: 'NoOp', inputs: { any: 'thing' } },
      second: {
        type: 'LogMessage',
        inputs: { message: 'got ${trigger.body.id}' },
        runAfter: { first: { statuses: ['Succeeded'], when: 'trigger.body.id > 1' } },
      },
      third: {
        type: 'HttpRequest',
        inputs: { url: 'https://example.com/', headers: { authorization: 'env:API_TOKEN' } },
        runAfter: { second: ['Succeeded', 'Failed'] },
      },
    } as Record<string, Record<string, Json>>,
  };
}

export type GoodManifest = ReturnType<typeof goodManifest> & Record<string, unknown>;

/** The issues of the good manifest after an edit, one per line. */
export function issuesAfter(edit: (manifest: GoodManifest) => void, given: ManifestRules = rules): string[] {
  const manifest = goodManifest();
  edit(manifest);
  return issuesOf(JSON.stringify(manifest), given);
}

export function issuesOf(text: string, given: ManifestRules = rules): string[] {
  // Without lines and columns: the tests' manifests have one line.
  return parseManifest(text, 'flow.json', given).issues.map(({ line, column, ...issue }) => formatIssue(issue));
}
