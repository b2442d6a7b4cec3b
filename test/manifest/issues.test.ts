import { expect, test } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { didYouMean } from '../../src/manifest/issues.ts';
import { issuesAfter, rules } from './rules.ts';

const builtIn = { ...rules, handlers: handlerTable(stepTypes().handlers) };

test.each<[string, Record<string, unknown>, string]>([
  ['http', { type: 'http' }, 'first.type: is not a known step type; did you mean "HttpRequest"?'],
  ['Log', { type: 'Log' }, 'first.type: is not a known step type; did you mean "LogMessage"?'],
  ['fetch', { type: 'fetch' }, 'did you mean "HttpRequest"?'],
  ['dependsOn', { dependsOn: [] }, 'first.dependsOn: is not known here; did you mean "runAfter"?'],
  ['needs', { needs: [] }, 'did you mean "runAfter"?'],
  ['retries', { retries: 3 }, 'first.retries: is not known here; did you mean "retry"?'],
  [
    'retries of a retry',
    { retry: { retries: 3 } },
    'first.retry.retries: is not known here; did you mean "maxAttempts"?',
  ],
  ['timeout', { timeout: 3 }, 'did you mean "timeoutSeconds"?'],
  ['with', { with: {} }, 'did you mean "inputs"?'],
  [
    'Success',
    { runAfter: { second: ['Success'] } },
    'is not one of Succeeded, Failed, Skipped; did you mean "Succeeded"?',
  ],
  ['Failure', { runAfter: { second: ['Failure'] } }, 'did you mean "Failed"?'],
])('a step with %s is answered with what to write', (_, step, message) => {
  const issues = issuesAfter(({ steps }) => Object.assign(steps.first ?? {}, step), builtIn);
  expect(issues.join('\n')).toContain(message);
});

test('a trigger of type http is answered with webhook', () => {
  const issues = issuesAfter(({ triggers }) => Object.assign(triggers, { hook: { type: 'http' } }));
  expect(issues).toEqual(
    ['error triggers.hook.type: is not one of manual, cron, webhook; did you mean "webhook"?'].map((line) =>
      line.replace('error ', 'error flow.json '),
    ),
  );
});

test.each([
  ['webhookFoo', ['webhookSlug', 'webhookHmacKey', 'webhookSignatureScheme'], ''],
  [
    'webhookSignature',
    ['webhookSlug', 'webhookHmacKey', 'webhookSignatureScheme'],
    '; did you mean "webhookSignatureScheme"?',
  ],
  ['SLUICE_ENFORCE', ['SLUICE_PORT', 'SLUICE_ENFORCEMENT_MODE'], '; did you mean "SLUICE_ENFORCEMENT_MODE"?'],
  ['SLUICE_QUEUE', ['SLUICE_PORT', 'SLUICE_ENFORCEMENT_MODE'], ''],
  ['he', ['HttpRequest', 'hello'], ''],
  ['anything', [], ''],
  ['constructor', ['runAfter'], ''],
])('%s of %j finds %j', (name, known, meant) => {
  expect(didYouMean(name, known)).toBe(meant);
});
