/**
 * The proofs of the gate, `.ci/run`, by subject; `npm run proof:all` has all others. Each is here because one of the
 * four promises, PostgreSQL, or a page needs it, and no quicker test covers its rule. CONTRIBUTING.md has this table.
 */
export const GATE = {
  'promise 1': [
    'e2e/crash',
    'e2e/kill-points',
    'e2e/shared-slug',
    'e2e/coalescing',
    'e2e/lost-database',
    'e2e/learned-key',
    'store/sqlite-lost-file',
    'store/sqlite-nonce-index',
    'webhooks/replay-attacks',
    'set-clock',
  ],
  'promise 2': [
    'attacks/attacks',
    'browser/foreign-form',
    'webhooks/manifest-mutations',
    'webhooks/lenient-modes',
    'deploys/isolation',
    'publishers/asana',
    'features/sign-on/sign-on',
  ],
  'promise 3': ['publishers/no-oracle', 'features/evidence/evidence', 'e2e/mcp'],
  'promise 4': ['features/deploy-rules/oracle', 'deploys/two-processes', 'e2e/deploy-crash', 'e2e/deploy'],
  PostgreSQL: [
    'postgres/two-stores',
    'postgres/two-stores-deploys',
    'postgres/replicas',
    'postgres/two-runtimes',
    'postgres/copy',
  ],
  'a page each': [
    'browser/overview',
    'browser/deliveries',
    'browser/flows',
    'browser/runs',
    'browser/deploy',
    'browser/schedules',
    'browser/publishers',
    'browser/hosts-and-keys',
    'browser/activity',
    'browser/shell',
    'browser/trouble',
  ],
  'the product': [
    'install/build',
    'install/tarball',
    'e2e/bundled-packages',
    'install/npm-start',
    'e2e/start',
    'e2e/upgrade',
    'features/features',
  ],
} as const;
