import { expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { createTriggerTable } from '../../src/webhooks/triggers.ts';
import { deployedFlow, sampleSettings, sampleTrigger } from './samples.ts';

const SIGNING_TOKEN = `whsec_${Buffer.from('thirty-two bytes of a random key').toString('base64')}`;
const SECRET_TOKEN = 'a secret token of GitLab';

function gitLab(webhookHmacKey: string, webhookHmacKeyPrevious?: string) {
  const inputs: WebhookInputs = { webhookSignatureScheme: 'GitLab', webhookHmacKey, webhookHmacKeyPrevious };
  const flow = deployedFlow({ webhooks: [sampleTrigger({ webhookSlug: 'in', ...inputs })] });
  const preparer = gatePreparer(gateChain(), sampleSettings());
  const [trigger] = createTriggerTable({ flows: [flow], preparer, defaultMode: 'Enforce' }).list();
  const warnings = webhookChecks(preparer)(flow.loaded).map(({ message }) => message);
  return {
    grade: trigger?.grade,
    reads: [...(trigger?.headersRead.names ?? [])],
    isWarned: /signs nothing/.test(warnings.join()),
  };
}

it.each([
  ['a signing token', SIGNING_TOKEN, undefined, 'A', false],
  ['a secret token', SECRET_TOKEN, undefined, 'F', true],
  ['a signing token and the former secret token', SIGNING_TOKEN, SECRET_TOKEN, 'F', true],
  ['a secret token and the former signing token', SECRET_TOKEN, SIGNING_TOKEN, 'F', true],
  ['two signing tokens', SIGNING_TOKEN, SIGNING_TOKEN.replace('dGhp', 'dGhq'), 'A', false],
] as const)(
  'grades GitLab with %s by the weaker of its keys, and warns of a token',
  (_, current, previous, grade, isWarned) => {
    expect(gitLab(current, previous)).toMatchObject({ grade, isWarned });
  },
);

it('keeps the headers of both forms while a webhook is changed over', () => {
  const { reads } = gitLab(SIGNING_TOKEN, SECRET_TOKEN);
  expect(reads).toEqual(expect.arrayContaining(['webhook-signature', 'webhook-id', 'x-gitlab-token']));
});
