import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { REASON_CODES } from '../../src/model/delivery.ts';
import { RUN_STATUSES } from '../../src/model/manifest.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { startDashboard, type TestDashboard } from '../dashboard/fixture.ts';
import { parser } from '../oracles/prometheus.ts';

const DOCKER = resolve(import.meta.dirname, '../../docker');
const textOf = (file: string) => readFileSync(join(DOCKER, file), 'utf8');

type SyntaxNode = ReturnType<typeof parser.parse>['topNode'];

/** Labels that Prometheus adds to every series. */
const TARGET_LABELS = ['job', 'instance'];

/** The possible values of a label; other labels can have any. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  job: ['sluice'],
  result: ['accepted', 'rejected'],
  reason: REASON_CODES,
  status: RUN_STATUSES,
};

interface Expression {
  /** Where it was found. */
  readonly place: string;
  readonly text: string;
  /** Texts that show labels of its result. */
  readonly shown: readonly string[];
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<string, string>>;
}

const rules = (parse(textOf('prometheus/rules.yml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

interface Board {
  readonly uid: string;
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition: string }[] };
  readonly panels: readonly {
    readonly title: string;
    readonly datasource: { readonly uid: string };
    readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
}

const BOARDS = readdirSync(join(DOCKER, 'grafana/dashboards'));
const boards = BOARDS.map((file) => JSON.parse(textOf(`grafana/dashboards/${file}`)) as Board);

/** Grafana replaces its variables before Prometheus reads the expression. */
const withoutVariables = (expression: string) => expression.replaceAll('$__rate_interval', '5m');

const expressions: Expression[] = [
  ...rules.map(({ alert, expr, annotations }) => ({ place: alert, text: expr, shown: Object.values(annotations) })),
  ...boards.flatMap(({ panels }) =>
    panels.flatMap(({ title, targets }) =>
      targets.map(({ expr, legendFormat }) => ({ place: title, text: withoutVariables(expr), shown: [legendFormat] })),
    ),
  ),
];

interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly value: string }[];
}

/** The metrics and labels in an expression; `isWhole` is false if it cannot be parsed. */
function readExpression(text: string): { selectors: Selector[]; grouped: string[]; isWhole: boolean } {
  const selectors: Selector[] = [];
  const grouped: string[] = [];
  let isWhole = true;
  const textAt = (node: SyntaxNode | null) => (node === null ? '' : text.slice(node.from, node.to));
  parser.parse(text).iterate({
    enter({ name, type, node }) {
      if (type.isError) isWhole = false;
      if (name === 'GroupingLabels') grouped.push(...node.getChildren('LabelName').map(textAt));
      if (name !== 'VectorSelector') return;
      const matchers = node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
      selectors.push({
        metric: textAt(node.getChild('Identifier')),
        matchers: matchers.map((matcher) => ({
          label: textAt(matcher.getChild('LabelName')),
          value: textAt(matcher.getChild('StringLiteral')).slice(1, -1),
        })),
      });
    },
  });
  return { selectors, grouped, isWhole };
}

/** Every series of a service, with its labels. */
function seriesOf(exposition: string): Map<string, readonly string[]> {
  const declared = new Map(
    createMetrics()
      .registry.getMetricsAsArray()
      .map((metric) => [metric.name, (metric as unknown as { labelNames: string[] }).labelNames]),
  );
  const series = new Map<string, readonly string[]>([['up', TARGET_LABELS]]);
  for (const [, name = '', type] of exposition.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    const labels = [...(declared.get(name) ?? []), ...TARGET_LABELS];
    if (type !== 'histogram') series.set(name, labels);
    else for (const suffix of ['_sum', '_count']) series.set(name + suffix, labels);
    if (type === 'histogram') series.set(`${name}_bucket`, [...labels, 'le']);
  }
  return series;
}

/** Names in an expression that no series has. */
function unknownIn(
  { text, shown }: Pick<Expression, 'text' | 'shown'>,
  series: Map<string, readonly string[]>,
): string[] {
  const { selectors, grouped, isWhole } = readExpression(text);
  if (!isWhole || selectors.length === 0) return ['not an expression'];
  const unknown: string[] = [];
  const known = new Set<string>();
  for (const { metric, matchers } of selectors) {
    const labels = series.get(metric);
    if (labels === undefined) unknown.push(metric);
    for (const label of labels ?? []) known.add(label);
    for (const { label, value } of matchers) {
      if (labels !== undefined && !labels.includes(label)) unknown.push(`${metric}{${label}}`);
      const values = VALUES[label];
      if (values === undefined || value.startsWith('$')) continue;
      unknown.push(...value.split('|').filter((one) => !values.includes(one)));
    }
  }
  const labels = shown.flatMap((line) =>
    [...line.matchAll(/\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}/g)].map(([, label]) => label ?? ''),
  );
  // An aggregation keeps the labels that it names; without one, all are kept.
  const left = /\b(by|without)\b/.test(text) ? new Set(grouped) : known;
  return [...unknown, ...grouped.filter((label) => !known.has(label)), ...labels.filter((label) => !left.has(label))];
}

describe('alerts and the board', () => {
  let dashboard: TestDashboard;
  let series: Map<string, readonly string[]>;
  beforeAll(async () => {
    dashboard = await startDashboard();
    series = seriesOf((await dashboard.app.inject('/metrics')).body);
  });

  it('name metrics and labels that a service has', () => {
    expect(expressions.length).toBeGreaterThan(30);
    const wrong = expressions.map((one) => ({ place: one.place, unknown: unknownIn(one, series) }));
    expect(wrong.filter(({ unknown }) => unknown.length > 0)).toEqual([]);
  });

  it.each([
    ['a metric that there is not', 'rate(sluice_nothing_total[5m])', '', ['sluice_nothing_total']],
    ['a label that the metric does not have', 'sluice_due_steps{flow="a"}', '', ['sluice_due_steps{flow}']],
    ['a grouping that the metric does not have', 'sum by (reason) (webhook_received_total)', '', ['reason']],
    ['a value that the label never has', 'sluice_runs_completed_total{status="Broken"}', '', ['Broken']],
    ['a label that is gone from the result', 'sum by (flow) (webhook_received_total)', '{{scheme}}', ['scheme']],
    ['half an expression', 'sum by (flow', '', ['not an expression']],
  ])('%s would be found', (_, text, shown, unknown) => {
    expect(unknownIn({ text, shown: [shown] }, series)).toEqual(unknown);
  });

  it('ask for the values of variables by metrics and labels that a service has', () => {
    const definitions = boards.flatMap(({ templating }) => templating.list.map(({ definition }) => definition));
    for (const definition of definitions) {
      const [, metric = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(definition) ?? [];
      expect(series.get(metric), definition).toContain(label);
    }
    expect(definitions).not.toEqual([]);
  });
});

it('every alert says how severe it is, what happens, and what to do', () => {
  const names = rules.map(({ alert }) => alert);
  expect(new Set(names).size).toBe(names.length);
  for (const { alert, labels, annotations } of rules) {
    expect(['warning', 'critical'], alert).toContain(labels.severity);
    expect(Object.keys(annotations), alert).toEqual(['summary', 'description']);
  }
});

it('the board reads the data source that is provisioned', () => {
  const { datasources } = parse(textOf('grafana/provisioning/datasources/prometheus.yml'));
  const [{ uid }] = datasources;
  for (const panel of boards.flatMap(({ panels }) => panels)) expect(panel.datasource.uid, panel.title).toBe(uid);
});
