import { servicePart } from '../../dashboard/services.ts';
import { runControlRoutes } from './control.ts';
import { runFailureRoutes } from './failures.ts';
import { runHistoryRoutes } from './history.ts';
import { runOutlineRoutes } from './outline.ts';
import { runRoutes } from './runs.ts';
import { stepRoutes } from './steps.ts';

export const runs = servicePart({
  name: 'runs',
  routes: [runRoutes, runFailureRoutes, runHistoryRoutes, runOutlineRoutes, stepRoutes, runControlRoutes],
});
