import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { temporaryFolder } from './temporary.ts';

const ROOT = resolve(import.meta.dirname, '..');
const BIOME = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');

/** A file, with one import that its room forbids. */
const FORBIDDEN: readonly (readonly [file: string, statement: string])[] = [
  ['src/model/run.ts', "import { randomUUID } from 'node:crypto';"],
  ['src/model/deep/run.ts', "import type { Flow } from '../../manifest/load.ts';"],
  ['src/expressions/compile.ts', "import { readFile } from 'node:fs/promises';"],
  ['src/expressions/cel/compile.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/manifest/parse.ts', "import { readFileSync } from 'node:fs';"],
  ['src/manifest/parse.ts', "import type { Store } from '../store/store.ts';"],
  ['src/manifest/fields/keys.ts', "import { handsOverKey } from '../../webhooks/keys-in-force.ts';"],
  ['src/manifest/fields/keys.ts', "import type { Trigger } from '../schema.ts';"],
  ['src/manifest/checks/deep/webhook.ts', "import { resolveScheme } from '../../../webhooks/schemes/resolve.ts';"],
  ['src/telemetry/metrics.ts', "import type { Catalog } from '../flows/catalog.ts';"],
  ['src/telemetry/tracing.ts', "import { eventParts } from '../features/events.ts';"],
  ['src/telemetry/events.ts', "import { httpRequestEvents } from '../features/http-request/events.ts';"],
  ['src/features/schedules/metrics.ts', "import type { Metrics } from '../../telemetry/metrics.ts';"],
  ['src/store/sealed.ts', "import { openSqliteStore } from './sqlite/client.ts';"],
  ['src/store/contract/runs.ts', "import type { Engine } from '../../flows/engine.ts';"],
  ['src/store/decisions/follow.ts', "import type { Database } from 'better-sqlite3';"],
  ['src/store/decisions/follow.ts', "import { portOf } from '../sqlite/port.ts';"],
  ['src/store/decisions/follow.ts', "import { createEngine } from '../../flows/engine.ts';"],
  ['src/store/sqlite/accept.ts', "import type { Delivery } from '../../webhooks/gate.ts';"],
  ['src/store/sqlite/deep/accept.ts', "import { createEngine } from '../../../flows/engine.ts';"],
  ['src/store/sqlite/migrations/9999-later.ts', "import { openDatabase } from '../connection.ts';"],
  ['src/flows/engine.ts', "import { ingress } from '../webhooks/ingress.ts';"],
  ['src/flows/engine.ts', "import { buildApp } from '../app.ts';"],
  ['src/flows/engine.ts', "import Fastify from 'fastify';"],
  ['src/flows/handlers/fail.ts', "import type { Delivery } from '../../webhooks/gate.ts';"],
  ['src/flows/handlers/fail.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/flows/handlers/http/deep.ts', "export { ingress } from '../../../webhooks/ingress.ts';"],
  ['src/flows/handlers/http/deep.ts', "export const app = import('../../../app.ts');"],
  ['src/webhooks/receive.ts', "import { openSqliteStore } from '../store/sqlite/client.ts';"],
  ['src/webhooks/receive.ts', "import type { Deployment } from '../deploys/deployment.ts';"],
  ['src/webhooks/receive.ts', "import { reviewerOf } from '../features/review/service.ts';"],
  ['src/webhooks/reading.ts', "import { searchKeysReader } from '../features/search-keys/reader.ts';"],
  ['src/webhooks/triggers.ts', "import { readers } from '../features/reader.ts';"],
  ['src/webhooks/sharing.ts', "import { accessRules } from '../features/access.ts';"],
  ['src/webhooks/access.ts', "import { deployRulesAccess } from '../features/deploy-rules/access.ts';"],
  ['src/features/deploy-rules/access.ts', "import type { NeedsReader } from '../../deploys/needs.ts';"],
  ['src/webhooks/deep/receive.ts', "import { dashboard } from '../../dashboard/dashboard.ts';"],
  ['src/webhooks/gates/ip.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/webhooks/gates/ip.ts', "import type { FastifyRequest } from 'fastify';"],
  ['src/webhooks/gates/ip.ts', "import { runGates } from '../pipeline.ts';"],
  ['src/webhooks/gates/deep/ip.ts', "import Database from 'better-sqlite3';"],
  ['src/webhooks/networks/address.ts', "import { signatureGate } from '../gates/signature.ts';"],
  ['src/webhooks/schemes/resolve.ts', "import { readFileSync } from 'node:fs';"],
  ['src/webhooks/schemes/publishers/m-s.ts', "import type { Store } from '../../../store/store.ts';"],
  ['src/webhooks/schemes/publishers/m-s.ts', "import { request } from 'undici';"],
  ['src/webhooks/schemes/verify.ts', "import { jwtVerify } from 'jose';"],
  ['src/webhooks/schemes/standards/jwt.ts', "import type { Store } from '../../../store/store.ts';"],
  ['src/webhooks/schemes/standards/jwt.ts', "import { request } from 'undici';"],
  ['src/config/extensions.ts', "import { stepParts } from '../features/step-types.ts';"],
  ['src/config/settings.ts', "import { settingParts } from '../features/settings.ts';"],
  ['src/config/settings.ts', "import { signOnSettingsCheck } from '../features/sign-on/settings-check.ts';"],
  ['src/config/credentials.ts', "import { settingsChecks } from '../features/settings-check.ts';"],
  ['src/features/sign-on/settings-check.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/config/settings-schema.ts', "import { alertsSettings } from '../features/alerts/settings.ts';"],
  ['src/features/alerts/settings.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/config/steps.ts', "import { httpRequestStepTypes } from '../features/http-request/step-types.ts';"],
  ['src/config/settings.ts', "import { buildApp } from '../app.ts';"],
  ['src/config/settings.ts', "import type { Services } from '../dashboard/services.ts';"],
  ['src/config/config-module.ts', "import { createDeployment } from '../deploys/deployment.ts';"],
  ['src/config/config-module.ts', "export const app = import('../app.ts');"],
  ['src/deploys/deployer.ts', "import { reviewerOf } from '../features/review/service.ts';"],
  ['src/deploys/deep/deployer.ts', "import { openSqliteStore } from '../../store/sqlite/client.ts';"],
  ['src/deploys/changes/index.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/deploys/changes/revisions.ts', "import { changeRules } from '../../features/changes.ts';"],
  ['src/deploys/changes/index.ts', "import { books } from '../../features/books/service.ts';"],
  ['src/features/deploy-rules/flow.ts', "import { createDeployment } from '../../deploys/deployment.ts';"],
  ['src/features/reconcile/sources/github.ts', "import { request } from 'undici';"],
  ['src/features/reconcile/sources/github.ts', "import type { Store } from '../../../store/store.ts';"],
  ['src/model/planner.ts', "import { v7 } from 'uuid';"],
  ['src/store/decisions/follow.ts', "import type { Slots } from '../../flows/slots.ts';"],
  ['src/deploys/plan-warnings.ts', "import { driftPlan } from '../features/drift/plan.ts';"],
  ['src/deploys/deployer.ts', "import { planChecks } from '../features/plan.ts';"],
  ['src/features/review/redelivery.ts', "import { openSqliteStore } from '../../store/sqlite/client.ts';"],
  ['src/features/rehearsal/simulator.ts', "import { openSqliteStore } from '../../store/sqlite/client.ts';"],
  ['src/features/rehearsal/simulator.ts', "import { request } from 'undici';"],
  ['src/dashboard/auth.ts', "import { buildApp } from '../app.ts';"],
  ['src/dashboard/api/service.ts', "import { buildApp } from '../../app.ts';"],
  ['src/dashboard/api/deep/runs.ts', "import { openSqliteStore } from '../../../store/sqlite/client.ts';"],
  ['src/dashboard/web/page.tsx', "import type { runSchema } from '../api/runs.ts';"],
  ['src/dashboard/web/kit/page.tsx', "import { booksPage } from '../../../features/books/page.tsx';"],
  ['src/dashboard/web/kit/page.tsx', "import { pageParts } from '../../../features/page.ts';"],
  ['src/dashboard/web/router.ts', "import { pageParts } from '../../features/page.ts';"],
  ['src/dashboard/web/main.tsx', "import { booksPage } from '../../features/books/page.tsx';"],
  ['src/dashboard/web/kit/sums.ts', "import { readFileSync } from 'node:fs';"],
  ['src/features/runs/page/graph-layout.ts', "import { readFileSync } from 'node:fs';"],
  ['src/features/runs/page/graph-layout.ts', "import type { runSchema } from '../runs.ts';"],
  ['src/dashboard/web/graph/deep/layout.ts', "import type { runSchema } from '../../../api/runs.ts';"],
  ['src/commands/check.ts', "import { commandParts } from '../features/command.ts';"],
  ['src/commands/check.ts', "import { buildApp } from '../app.ts';"],
  ['src/commands/check.ts', "import { openSqliteStore } from '../store/sqlite/client.ts';"],
  ['src/app.ts', "import { openSqliteStore } from './store/sqlite/client.ts';"],
  ['src/app.ts', "import { books } from './features/books/service.ts';"],
  ['src/server.ts', "import { serviceParts } from './features/service.ts';"],
  ['src/dashboard/dashboard.ts', "import { serviceParts } from '../features/service.ts';"],
  ['src/dashboard/dashboard.ts', "import swagger from '@fastify/swagger';"],
  ['src/dashboard/route.ts', "import { triggerViews } from '../features/trigger-view.ts';"],
  ['src/dashboard/trigger-views.ts', "import { books } from '../features/books/service.ts';"],
  ['src/dashboard/api/service.ts', "import { books } from '../../features/books/service.ts';"],
  ['src/flows/engine.ts', "import type { Books } from '../features/books/store.ts';"],
  ['src/store/decisions/runs.ts', "import { storeParts } from '../../features/store.ts';"],
  ['src/model/attention.ts', "import { rhythmAttention } from '../features/rhythm/attention.ts';"],
  ['src/model/finding.ts', "import { attentionKinds } from '../features/attention.ts';"],
  ['src/store/decisions/verbs.ts', "import { bookStore } from '../../features/books/store.ts';"],
  ['src/store/decisions/placing.ts', "import { orderPlacer } from '../../features/order/placer.ts';"],
  ['src/store/decisions/following.ts', "import { onFailureFollower } from '../../features/on-failure/follower.ts';"],
  ['src/store/sqlite/operations.ts', "import { storeParts } from '../../features/store.ts';"],
  ['src/features/books/service.ts', "import { serviceParts } from '../service.ts';"],
  ['src/features/rhythm/trigger.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/manifest/webhook-fields.ts', "import { books } from '../features/books/service.ts';"],
  ['src/manifest/manifest-fields.ts', "import { onFailureManifest } from '../features/on-failure/manifest.ts';"],
  ['src/manifest/schema.ts', "import { manifestParts } from '../features/manifest.ts';"],
  ['src/features/on-failure/manifest.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/manifest/parse.ts', "import { triggerParts } from '../features/trigger.ts';"],
  ['src/features/books/service.ts', "import { buildApp } from '../../app.ts';"],
  ['src/features/books/store.ts', "import { openSqliteStore } from '../../store/sqlite/client.ts';"],
];

/** One of each kind of import that must stay possible: a fence that refuses everything proves nothing. */
const ALLOWED: readonly (readonly [file: string, statement: string])[] = [
  ['src/model/run.ts', "import type { Json } from './json.ts';"],
  ['src/expressions/compile.ts', "import type { Json } from '../model/json.ts';"],
  ['src/manifest/webhook-fields.ts', "import { keyFields } from './fields/keys.ts';"],
  ['src/manifest/fields/keys.ts', "import { DEFAULT_COMPONENTS } from '../../model/manifest.ts';"],
  ['src/manifest/load.ts', "import { readFile } from 'node:fs/promises';"],
  ['src/store/store.ts', "import type { AcceptedRun } from './contract/runs.ts';"],
  ['src/store/decisions/follow.ts', "import { planNext } from '../../model/planner.ts';"],
  ['src/store/sqlite/accept.ts', "import { decideNow } from '../decisions/decision.ts';"],
  ['src/store/store-keys.ts', "import { flushFolder } from './durable-files.ts';"],
  ['src/deploys/plan-warnings.ts', "import { planChecks } from '../features/plan.ts';"],
  ['src/deploys/changes/index.ts', "import { changeRules } from '../../features/changes.ts';"],
  ['src/features/deploy-rules/flow.ts', "import { findingAt } from '../../deploys/changes/revisions.ts';"],
  ['src/config/settings-schema.ts', "import { settingParts } from '../features/settings.ts';"],
  ['src/config/settings.ts', "import { settingsChecks } from '../features/settings-check.ts';"],
  ['src/features/alerts/settings.ts', "import { option } from '../../config/setting-row.ts';"],
  ['src/features/sign-on/settings-check.ts', "import { isGroup } from '../../config/tokens.ts';"],
  ['src/config/steps.ts', "import { stepParts } from '../features/step-types.ts';"],
  ['src/flows/engine.ts', "import type { Store } from '../store/store.ts';"],
  ['src/flows/handlers/fail.ts', "import { z } from 'zod';"],
  ['src/webhooks/ingress.ts', "import type { FastifyInstance } from 'fastify';"],
  ['src/webhooks/gates/ip.ts', "import type { Gate } from '../gate.ts';"],
  ['src/webhooks/schemes/publishers/m-s.ts', "import type { SignatureSpec } from '../spec.ts';"],
  ['src/webhooks/schemes/standards/jwt.ts', "import { jwtVerify } from 'jose';"],
  ['src/webhooks/reading.ts', "import { readers } from '../features/reader.ts';"],
  ['src/webhooks/access.ts', "import { accessRules } from '../features/access.ts';"],
  ['src/features/deploy-rules/entrance.ts', "import { replayRule } from '../../webhooks/gates/replay.ts';"],
  ['src/deploys/deployment.ts', "import { createTriggerTable } from '../webhooks/triggers.ts';"],
  ['src/features/reconcile/sources/github.ts', "import type { Source } from '../source.ts';"],
  ['src/features/review/redelivery.ts', "import { judge } from '../../webhooks/pipeline.ts';"],
  ['src/features/rehearsal/simulator.ts', "import { createRunStep } from '../../flows/run-step.ts';"],
  ['src/dashboard/api/service.ts', "import type { Store } from '../../store/store.ts';"],
  ['src/dashboard/trigger-views.ts', "import { triggerViews } from '../features/trigger-view.ts';"],
  ['src/dashboard/web/kit/sums.ts', "import { signal } from '../state.ts';"],
  ['src/features/runs/page/graph-layout.ts', "import { signal } from '../../../dashboard/web/state.ts';"],
  ['src/app.ts', "import { serviceParts } from './features/service.ts';"],
  ['src/dashboard/web/main.tsx', "import { pageParts } from '../../features/page.ts';"],
  ['src/commands/program.ts', "import { commandParts } from '../features/command.ts';"],
  ['src/store/decisions/verbs.ts', "import { storeParts } from '../../features/store.ts';"],
  ['src/store/decisions/placing.ts', "import { placers } from '../../features/placer.ts';"],
  ['src/store/decisions/following.ts', "import { followers } from '../../features/follower.ts';"],
  ['src/manifest/webhook-fields.ts', "import { triggerParts } from '../features/trigger.ts';"],
  ['src/manifest/manifest-fields.ts', "import { manifestParts } from '../features/manifest.ts';"],
  ['src/features/on-failure/manifest.ts', "import { flowId } from '../../manifest/fields/values.ts';"],
  ['src/features/rhythm/trigger.ts', "import { field } from '../../manifest/fields/row.ts';"],
  ['src/model/attention.ts', "import { attentionKinds } from '../features/attention.ts';"],
  ['src/telemetry/events.ts', "import { eventParts } from '../features/events.ts';"],
  ['src/telemetry/metrics.ts', "import { metricParts } from '../features/metrics.ts';"],
  ['src/features/schedules/metrics.ts', "import { Histogram } from 'prom-client';"],
  ['src/features/service.ts', "import { books } from './books/service.ts';"],
  ['src/features/books/service.ts', "import { route } from '../../dashboard/route.ts';"],
  ['src/features/books/service.ts', "import { sql } from '../../store/decisions/port.ts';"],
  ['src/features/books/service.ts', "import { createSweeper } from '../../sweeper.ts';"],
  ['src/features/rhythm/service.ts', "import type { Books } from '../books/store.ts';"],
  ['src/store/open-store.ts', "import { openSqliteStore } from './sqlite/client.ts';"],
  ['src/features/copy/copy-database.ts', "import { openCopiedSqlite } from './sqlite-rows.ts';"],
  ['src/features/copy/sqlite-rows.ts', "import { openWriter } from '../../store/sqlite/connection.ts';"],
];

/** Files that import each other: by value, only by type, and through a third. */
const CYCLES: readonly (readonly [file: string, statement: string])[] = [
  ['src/flows/cycle-a.ts', "import { b } from './cycle-b.ts';\nexport const a = () => b;"],
  ['src/flows/cycle-b.ts', "import { a } from './cycle-a.ts';\nexport const b = () => a;"],
  ['src/features/cycle/type-a.ts', "import type { B } from './type-b.ts';\nexport type A = { b?: B };"],
  ['src/features/cycle/type-b.ts', "import type { C } from './type-c.ts';\nexport type B = { c?: C };"],
  ['src/features/cycle/type-c.ts', "import type { A } from './type-a.ts';\nexport type C = { a?: A };"],
];

/** Code that makes a test's result vary, or hides that it does. */
const UNREPEATABLE: readonly (readonly [file: string, statement: string])[] = [
  ['test/flows/a.test.ts', 'export const drawn = Math.random();'],
  ['test/e2e/a.proof.ts', 'export const drawn = [1, 2].map(Math.random);'],
  ['test/bench/a.ts', "export const drawn = Math['random']();"],
  ['test/a.ts', 'export const { random } = Math;'],
  ['test/flows/a.test.ts', "it('r', { retry: 1 }, () => {});"],
  ['test/flows/a.test.ts', "it.each([1])('r', { timeout: 1, retry: { count: 2 } }, async () => {});"],
  ['test/store/a.ts', "describe('r', { retry: 4 }, () => {});"],
  ['test/store/a.ts', 'vi.setConfig({ retry: 2 });'],
  ['vitest.config.ts', 'export default defineConfig({ test: { projects: [{ test: { retry: 1 } }] } });'],
  ['test/a.ts', "it.skip('r', () => {});"],
  ['test/a.ts', "describe.only('r', () => {});"],
  ['test/a.ts', "test.skip.each([1])('r', () => {});"],
  ['test/a.ts', "it.todo('r');"],
  ['test/a.ts', "it.fails('r', () => {});"],
  ['test/a.ts', 'export const suite = missing ? describe.skip : describe;'],
];

const REPEATABLE: readonly (readonly [file: string, statement: string])[] = [
  ['src/flows/runtime.ts', 'export const drawn = Math.random();'],
  ['test/a.ts', "it('r', () => run({ retry: { maxAttempts: 3 } }));"],
  ['test/a.ts', "it.each([{ retry: 3 }])('r', () => {});"],
  ['test/a.ts', "describe.skipIf(missing)('r', () => {});"],
];

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string };
}

let folder: string;
let diagnostics: readonly Diagnostic[];

/** Files that a rule names; their permissions are tested on these very files. */
const NAMED = new Set([
  'src/app.ts',
  'src/commands/program.ts',
  'src/config/settings.ts',
  'src/config/settings-schema.ts',
  'src/config/steps.ts',
  'src/deploys/changes/index.ts',
  'src/deploys/plan-warnings.ts',
  'src/dashboard/trigger-views.ts',
  'src/dashboard/web/main.tsx',
  'src/manifest/load.ts',
  'src/manifest/webhook-fields.ts',
  'src/manifest/manifest-fields.ts',
  'src/model/attention.ts',
  'src/telemetry/events.ts',
  'src/telemetry/metrics.ts',
  'src/store/open-store.ts',
  'src/features/copy/copy-database.ts',
  'src/features/copy/sqlite-rows.ts',
  'src/store/store-keys.ts',
  'src/store/decisions/verbs.ts',
  'src/store/decisions/placing.ts',
  'src/store/decisions/following.ts',
  'src/webhooks/access.ts',
  'src/webhooks/reading.ts',
  'src/features/deploy-rules/entrance.ts',
  'vitest.config.ts',
]);
/** Plants each statement in a new file of the same folder, and that of a face in a new folder. */
const plantedAs = (rows: typeof FORBIDDEN, prefix: string) =>
  rows.map(([original, statement], index) => {
    const name = `${prefix}-${index}`;
    const isFace =
      /^(manifest|trigger|settings|settings-check|events|metrics)\.ts$/.test(basename(original)) &&
      original.includes('/features/');
    const own = isFace
      ? join(dirname(original), '..', name, basename(original))
      : join(dirname(original), name + extname(original));
    return { original, statement, file: prefix !== 'forbidden' && NAMED.has(original) ? original : own };
  });
const forbidden = plantedAs(FORBIDDEN, 'forbidden');
const allowed = plantedAs(ALLOWED, 'allowed');
const unrepeatable = plantedAs(UNREPEATABLE, 'unrepeatable');
const repeatable = plantedAs(REPEATABLE, 'repeatable');

beforeAll(() => {
  folder = temporaryFolder('fence');
  const plant = (file: string, text: string) => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  };
  const planted = [...forbidden, ...allowed, ...unrepeatable, ...repeatable];
  for (const { file, statement } of planted) plant(file, `${statement}\n`);
  for (const file of ['.biome.json', 'test/repeatable.grit']) copyFileSync(join(ROOT, file), join(folder, file));
  for (const [file, statement] of CYCLES) plant(file, `${statement}\n`);
  diagnostics = lint();
}, 60_000);

function lint(): Diagnostic[] {
  const rules = ['--only=style/noRestrictedImports', '--only=suspicious/noImportCycles', '--only=plugin'];
  const options = ['lint', '--vcs-enabled=false', '--reporter=json', '--max-diagnostics=none', ...rules, '.'];
  try {
    return JSON.parse(execFileSync(BIOME, options, { cwd: folder, encoding: 'utf8', stdio: 'pipe' })).diagnostics;
  } catch (error) {
    // It found errors, so its exit code is not 0.
    return JSON.parse((error as { stdout: string }).stdout).diagnostics;
  }
}

const reported = (rule: string) =>
  diagnostics.filter(({ category }) => category.endsWith(rule)).map(({ location }) => location.path);

it.each(forbidden)('refuses in $original: $statement', ({ file }) => {
  expect(reported('noRestrictedImports')).toContain(file);
});

it.each(allowed)('allows in $original: $statement', ({ file }) => {
  expect(reported('noRestrictedImports')).not.toContain(file);
});

it.each(unrepeatable)('refuses in $original: $statement', ({ file }) => {
  expect(reported('plugin')).toContain(file);
});

it.each(repeatable)('allows in $original: $statement', ({ file }) => {
  expect(reported('plugin')).not.toContain(file);
});

it.each(CYCLES)('refuses the cycle through %s', (file) => {
  expect(reported('noImportCycles')).toContain(file);
});
