import { orderItems } from '../attention/orders.ts';
import { servicePart } from '../services.ts';
import { runControlRoutes } from './run-control.ts';
import { runFailureRoutes } from './run-failures.ts';
import { runHistoryRoutes } from './run-history.ts';
import { runOutlineRoutes } from './run-outline.ts';
import { runRoutes } from './runs.ts';
import { stepRoutes } from './steps.ts';

export const runs = servicePart({
  name: 'runs',
  routes: [runRoutes, runFailureRoutes, runHistoryRoutes, runOutlineRoutes, stepRoutes, runControlRoutes],
  attention: orderItems,
});
