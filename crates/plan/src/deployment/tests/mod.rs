mod bounds;
mod in_place;
mod lifecycle;
mod marks;
mod rolling;
mod scaling;
mod wishes;
mod world;
