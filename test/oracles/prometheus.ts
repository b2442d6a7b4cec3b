import './installed.ts';

export { parser } from '@prometheus-io/lezer-promql';
